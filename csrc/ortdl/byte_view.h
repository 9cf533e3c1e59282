#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// \file
/// Bytes in memory or in a file, of which only what is looked at is read.
namespace ortdl::detail {

/// A file that is read a window at a time. It may shrink meanwhile, which would be a SIGBUS if it
/// were mapped into memory. For one thread.
class WindowedFile {
 public:
  /// \throws c10::Error if it cannot be read.
  explicit WindowedFile(std::string path);
  WindowedFile(const WindowedFile&) = delete;
  WindowedFile(WindowedFile&&) = delete;
  WindowedFile& operator=(const WindowedFile&) = delete;
  WindowedFile& operator=(WindowedFile&&) = delete;
  ~WindowedFile();

  /// Its size when it was opened.
  [[nodiscard]] size_t size() const noexcept { return size_; }
  /// The byte at `place`. \throws c10::Error if the file cannot be read, or is shorter by now.
  [[nodiscard]] std::byte at(size_t place) {
    if (place < start_ || place >= start_ + window_.size()) [[unlikely]] {
      move_window(place);
    }
    return window_[place - start_];
  }

 private:
  void move_window(size_t place);

  std::string path_;
  int descriptor_;
  size_t size_ = 0;
  size_t start_ = 0;
  std::vector<std::byte> window_;
};

/// A part of such a file, or of memory; either must outlive it.
class ByteView {
 public:
  ByteView(std::span<const std::byte> memory) noexcept  // NOLINT: spans are views
      : memory_(memory.data()), size_(memory.size()) {}
  explicit ByteView(WindowedFile& file) noexcept : file_(&file), size_(file.size()) {}

  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// \throws c10::Error if the file cannot be read, or is shorter by now.
  [[nodiscard]] std::byte operator[](size_t place) const {
    return file_ == nullptr ? memory_[start_ + place] : file_->at(start_ + place);
  }
  /// Take the first `count` bytes away, of which there are as many, and return them.
  [[nodiscard]] ByteView split(size_t count) noexcept;
  /// A copy. \throws as above.
  [[nodiscard]] std::string text() const;

 private:
  const std::byte* memory_ = nullptr;
  WindowedFile* file_ = nullptr;
  size_t start_ = 0;
  size_t size_;
};

}  // namespace ortdl::detail
