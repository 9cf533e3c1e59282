#pragma once

#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>
#include <ortdl/stream.h>

#include <memory>
#include <mutex>
#include <optional>

/// \file
/// The streams that have to do with one piece of device memory.
namespace ortdl {

/// Whoever gets memory back that is not PyTorch's, and may give it out again.
class Reuser {
 public:
  Reuser() = default;
  Reuser(const Reuser&) = delete;
  Reuser(Reuser&&) = delete;
  Reuser& operator=(const Reuser&) = delete;
  Reuser& operator=(Reuser&&) = delete;
  virtual ~Reuser() = default;

  /// Use no memory that is given back from now on before the work queued on `reader` is done.
  virtual void reuse_after(c10::Stream reader) const = 0;
};

/// Remembers the stream whose work device memory depends on, and sees to it that the memory is not
/// reused while another stream of PyTorch's still reads it. Safe from several threads.
///
/// A stream given by its handle is not remembered as a reader, since it may be gone by then: its
/// owner keeps the value until the work is done, as DLPack asks.
class StreamUse {
 public:
  /// \param home The stream on which the elements were or are being made.
  /// \param storage The memory where a tensor of PyTorch owns it; else empty.
  /// \param reuser Who gets other memory back, if that is known.
  StreamUse(c10::Stream home, c10::Storage storage,
            std::shared_ptr<const Reuser> reuser = nullptr) noexcept;
  StreamUse(const StreamUse&) = delete;
  StreamUse(StreamUse&&) = delete;
  StreamUse& operator=(const StreamUse&) = delete;
  StreamUse& operator=(StreamUse&&) = delete;
  /// Memory that is not PyTorch's may be reused on `home()` from now on: `home()` waits for every
  /// reader.
  ~StreamUse();

  /// What memory on `device` needs: nothing on the CPU; else one whose home is the stream that is
  /// current on `device`. \throws c10::ValueError if `device` is not usable.
  [[nodiscard]] static std::unique_ptr<StreamUse> on(at::Device device,
                                                     const c10::Storage& storage = {}) {
    return device.is_cpu() ? nullptr : std::make_unique<StreamUse>(current_stream(device), storage);
  }

  [[nodiscard]] c10::Stream home() const noexcept { return home_; }
  [[nodiscard]] const c10::Storage& storage() const noexcept { return storage_; }

  /// Let `reader` wait for the work queued on `home()`, and the memory's next user for `reader`.
  /// \throws as `order` does; nothing is remembered then.
  void order_before(c10::Stream reader);

 private:
  c10::Stream home_;
  c10::Storage storage_;
  std::shared_ptr<const Reuser> reuser_;
  std::mutex mutex_;
  c10::SmallVector<c10::Stream, 1> readers_;
};

}  // namespace ortdl
