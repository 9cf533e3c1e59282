#include "call.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace emulator {
namespace {

struct Failure {
  unsigned nth;
  cudaError_t error;
};

struct Calls {
  std::unordered_map<std::string, Failure> failures;
  std::vector<std::pair<std::string, cudaStream_t>> trace;
};

/// CUDA_EMULATOR_FAIL is a list of NAME:NTH:ERROR, with commas between.
std::unordered_map<std::string, Failure> failures_from_environment() {
  std::unordered_map<std::string, Failure> failures;
  const char* text = std::getenv("CUDA_EMULATOR_FAIL");
  std::istringstream list(text == nullptr ? "" : text);
  for (std::string entry; std::getline(list, entry, ',');) {
    std::istringstream fields(entry);
    std::string name;
    char colon = 0;
    unsigned nth = 0;
    int error = 0;
    if (!std::getline(fields, name, ':') || !(fields >> nth >> colon >> error)) {
      throw std::invalid_argument("CUDA_EMULATOR_FAIL wants NAME:NTH:ERROR, not " + entry);
    }
    failures[name] = {nth, static_cast<cudaError_t>(error)};
  }
  return failures;
}

/// Never destroyed: the program may make calls until its very end.
Calls& calls() {
  static auto& calls = *new Calls{failures_from_environment(), {}};
  return calls;
}

thread_local cudaError_t last = cudaSuccess;

}  // namespace

Lock lock_machine() {
  static auto& machine = *new std::mutex;
  return Lock(machine);
}

cudaError_t enter(const char* name, cudaStream_t stream) {
  calls().trace.emplace_back(name, stream);
  const auto found = calls().failures.find(name);
  if (found == calls().failures.end() || --found->second.nth > 0) {
    return cudaSuccess;
  }
  const cudaError_t error = found->second.error;
  calls().failures.erase(found);
  return error;
}

cudaError_t remember(cudaError_t error) noexcept {
  if (error != cudaSuccess) {
    last = error;
  }
  return error;
}

cudaError_t last_error() noexcept { return last; }

void forget_error() noexcept { last = cudaSuccess; }

void fail(const std::string& name, unsigned nth, cudaError_t error) {
  if (nth == 0) {
    calls().failures.erase(name);
  } else {
    calls().failures[name] = {nth, error};
  }
}

void reset_calls() {
  calls().failures.clear();
  calls().trace.clear();
}

std::string trace() {
  std::ostringstream lines;
  for (const auto& [name, stream] : calls().trace) {
    lines << name << ' ' << reinterpret_cast<std::size_t>(stream) << '\n';
  }
  return lines.str();
}

}  // namespace emulator
