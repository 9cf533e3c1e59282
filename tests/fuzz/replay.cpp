// Runs a fuzz target without libFuzzer: on each file of a folder, and on so many random changes of
// them, which a number decides.
//
//     replay FOLDER CHANGES SEED

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "target.h"

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMostBytes = 4096;
std::mt19937_64 generator;  // NOLINT: the same numbers each time

size_t below(size_t limit) { return generator() % limit; }

std::vector<Bytes> inputs_in(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<Bytes> inputs;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

const Bytes* running = nullptr;

// Says in hexadecimal which input ended the process.
void report(int signal) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "\nthe input, in hexadecimal: ";
  for (const uint8_t byte : *running) {
    text += {digits[byte / 16], digits[byte % 16]};
  }
  static_cast<void>(std::fprintf(stderr, "%s\n", text.c_str()));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Bytes& input) {
  // A copy of just that size, so that a sanitizer sees what is read behind it.
  const Bytes exact(input);
  running = &exact;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

// The first half of one and the second of another.
Bytes spliced(const Bytes& one, const Bytes& other) {
  const auto half = [](const Bytes& bytes) {
    return static_cast<std::ptrdiff_t>(below(bytes.size() + 1));
  };
  Bytes made(one.begin(), one.begin() + half(one));
  made.insert(made.end(), other.end() - half(other), other.end());
  return made;
}

void replay(const char* folder, size_t changes) {
  const std::vector<Bytes> inputs = inputs_in(folder);
  ortdl::fuzz::require(!inputs.empty(), "the folder has inputs", folder);
  std::ranges::for_each(inputs, run);
  for (size_t i = 0; i < changes; ++i) {
    Bytes changed = inputs[below(inputs.size())];
    if (below(8) == 0) {
      changed = spliced(changed, inputs[below(inputs.size())]);
    }
    size_t size = std::min(changed.size(), kMostBytes);
    changed.resize(kMostBytes);
    for (size_t times = 1 + below(4); times > 0; --times) {
      size = LLVMFuzzerCustomMutator(changed.data(), size, kMostBytes,
                                     static_cast<unsigned int>(generator()));
    }
    changed.resize(size);
    run(changed);
  }
  std::printf("%zu inputs and %zu changes\n", inputs.size(), changes);
}

}  // namespace

// In the place of libFuzzer's: one change of a byte or a few.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  const size_t place = below(size + 1);
  if (place == size || (below(4) == 0 && size < max_size)) {
    if (size < max_size) {
      std::copy_backward(data + place, data + size, data + size + 1);
      data[place] = static_cast<uint8_t>(below(256));
      return size + 1;
    }
    return size;
  }
  switch (below(4)) {
    case 0:
      data[place] ^= static_cast<uint8_t>(1U << below(8));
      return size;
    case 1:
      data[place] = static_cast<uint8_t>(below(256));
      return size;
    case 2:
      data[place] = below(2) == 0 ? 0xFF : 0;
      return size;
    default:
      const size_t gone = 1 + below(std::min<size_t>(size - place, 8));
      std::copy(data + place + gone, data + size, data + place);
      return size - gone;
  }
}

int main(int argc, char** argv) try {
  if (argc != 4) {
    static_cast<void>(std::fputs("replay FOLDER CHANGES SEED\n", stderr));
    return EXIT_FAILURE;
  }
  generator.seed(std::stoull(argv[3]));
  LLVMFuzzerInitialize(&argc, &argv);
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS}) {
    std::signal(signal, report);
  }
  replay(argv[1], std::stoull(argv[2]));
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  static_cast<void>(std::fprintf(stderr, "%s\n", error.what()));
  return EXIT_FAILURE;
}
