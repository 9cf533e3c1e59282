#pragma once

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <ortdl/ortdl.h>

#include <functional>
#include <string>
#include <vector>

#include "fake/accelerator.h"
#include "support.h"

/// \file
/// What the tests on the fake accelerator share.
namespace ortdl::test {

using Lines = std::vector<std::string>;

/// Device number `index` of the fake accelerator.
[[nodiscard]] at::Device device(int index);
/// The default stream of device number `index`.
[[nodiscard]] c10::Stream default_stream(int index);
/// A new stream of PyTorch's on device number `index`. Its name in the trace is "s<index>.<id>",
/// and the first two of a device have the ids 1 and 3.
[[nodiscard]] c10::Stream new_stream(int index);
/// Floats 0, 1, ... `count` - 1 in a tensor of device number `index`, made on its current stream.
[[nodiscard]] at::Tensor counting(int index, int64_t count = 4);
/// The elements of a tensor of one device, read by a host that waits for `stream` alone.
[[nodiscard]] at::Tensor read_on(c10::Stream stream, const at::Tensor& tensor);

/// Makes `stream` current on its device, and nothing else, until the end of the block.
class Using {
 public:
  explicit Using(c10::Stream stream);
  Using(const Using&) = delete;
  Using(Using&&) = delete;
  Using& operator=(const Using&) = delete;
  Using& operator=(Using&&) = delete;
  ~Using();

 private:
  size_t device_;
  c10::StreamId before_;
};

/// Fails a test that leaves an object of the library, an event, a block of device memory, or
/// another device or stream than it found.
class DeviceTest : public CountedTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// What the accelerator was asked for since the last time.
  static Lines taken() { return fake::trace().take(); }

  /// Calls `action` again and again, its first call to the accelerator failing, then its second,
  /// ..., until none is left to fail. Each failure must arrive, be the fake's own and leave device,
  /// streams, events, memory and counters as they were.
  /// \return The kinds of the calls that failed, in order.
  static Lines fail_each_call(const std::function<void()>& action);
};

}  // namespace ortdl::test
