#include "ep.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <memory>
#include <stdexcept>
#include <utility>

#include "accelerator.h"
#include "node.h"
#include "numbers.h"
#include "queue.h"
#include "recorder.h"
#include "stream.h"

namespace fake_gpu {
namespace {

// The first release that calls OrtEp::Sync; it does so for providers that know of this release.
constexpr uint32_t kSyncVersion = 25;

/// The options that were given to one provider of a session.
class Options {
 public:
  Options(const OrtSessionOptions& options, const std::string& ep_name) : prefix_("ep.") {
    // ONNX Runtime 1.32 has a short name for its own provider.
    for (const char c : ep_name == "CUDAExecutionProvider" ? "cuda" : ep_name) {
      prefix_ += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    prefix_ += '.';
    OrtKeyValuePairs* entries = nullptr;
    check(ort().GetSessionOptionsConfigEntries(&options, &entries));
    entries_.reset(entries);
  }

  [[nodiscard]] void* address(const char* option) const {
    return parse_address(option, ort().GetKeyValue(entries_.get(), (prefix_ + option).c_str()));
  }

 private:
  std::string prefix_;
  KeyValuePairs entries_;
};

}  // namespace

void* parse_address(const char* option, const char* text) {
  if (text == nullptr) {
    return nullptr;
  }
  const auto address = parse_number<uintptr_t>(text);
  if (!address) {
    throw std::runtime_error("option " + std::string(option) +
                             " is an address as a decimal number, not '" + text + "'");
  }
  return std::bit_cast<void*>(*address);
}

Ep::Ep(std::string name, int device, const OrtSessionOptions& options)
    : EpBase{}, name_(std::move(name)), device_(device) {
  const Options given(options, name_);
  if (void* stream = given.address("user_compute_stream")) {
    stream_ = stream;
  }
  external_ = {reinterpret_cast<void* (*)(size_t)>(given.address("gpu_external_alloc")),
               reinterpret_cast<void (*)(void*)>(given.address("gpu_external_free"))};
  if (stream_ && external_.given()) {
    throw std::runtime_error(
        "a stream of the user's with an allocator of the user's is not supported, as in ONNX "
        "Runtime's CUDA provider");
  }
  if (external_.given() && Accelerator::find() != nullptr) {
    stream_ = nullptr;  // the default stream, as there
  }
  if (stream_) {
    static_cast<void>(queue_of(device_, *stream_));
  }
  ort_version_supported = std::min(runtime_version(), kSyncVersion);
  GetName = get_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_infos;
  OnRunStart = on_run_start;
  OnRunEnd = on_run_end;
  CreateAllocator = create_allocator;
  CreateSyncStreamForDevice = create_stream;
  Sync = sync;
}

const char* Ep::get_name(const OrtEp* self) noexcept {
  return static_cast<const Ep*>(self)->name_.c_str();
}

// Each node stands alone, so that what is between two of ours is device memory, too.
OrtStatus* Ep::get_capability(OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* info) noexcept {
  return guarded([&] {
    OrtNodeFusionOptions options{};
    options.ort_version_supported = ORT_API_VERSION;
    for (const OrtNode* node : nodes_of(*graph)) {
      if (Node::takes(*node)) {
        check(ep_api().EpGraphSupportInfo_AddNodesToFuse(info, &node, 1, &options));
      }
    }
  });
}

OrtStatus* Ep::compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, size_t count,
                       OrtNodeComputeInfo** infos, OrtNode**) noexcept {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) {
      infos[i] = std::make_unique<Node>(*graphs[i], *fused[i], from(self).device_).release();
    }
  });
}

void Ep::release_infos(OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) {
    const std::unique_ptr<Node> owned(static_cast<Node*>(infos[i]));
  }
}

// Makes its device current and leaves it so, as ONNX Runtime's CUDA provider does.
OrtStatus* Ep::on_run_start(OrtEp* self, const OrtRunOptions*) noexcept {
  return guarded([&] {
    Recorder::instance().log("run starts, " + place(from(self).device_));
    if (const Accelerator* accelerator = Accelerator::find()) {
      accelerator->set_device(from(self).device_);
    }
  });
}

// ONNX Runtime flushes the run's stream next if `synchronize` is set, so there is no wait here.
OrtStatus* Ep::on_run_end(OrtEp* self, const OrtRunOptions*, bool synchronize) noexcept {
  return guarded([&] {
    Recorder::instance().log("run ends, " + place(from(self).device_) +
                             (synchronize ? ", to be flushed" : ", not to be flushed"));
  });
}

OrtStatus* Ep::create_allocator(OrtEp* self, const OrtMemoryInfo* info,
                                OrtAllocator** out) noexcept {
  return guarded(
      [&] { *out = std::make_unique<Allocator>(*info, from(self).external_).release(); });
}

OrtStatus* Ep::create_stream(OrtEp* self, const OrtMemoryDevice*,
                             OrtSyncStreamImpl** out) noexcept {
  return guarded([&] { *out = make_stream(from(self).device_, from(self).stream_).release(); });
}

OrtStatus* Ep::sync(OrtEp* self) noexcept {
  return guarded([&] {
    const int device = from(self).device_;
    Recorder::instance().log("synchronize " + place(device), &FakeGpuEpCounters::stream_waits);
    run_own_queues(device);
    if (const Accelerator* accelerator = Accelerator::find()) {
      accelerator->synchronize_device(device);
    }
  });
}

}  // namespace fake_gpu
