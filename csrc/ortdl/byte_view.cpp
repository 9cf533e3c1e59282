#include <c10/util/Exception.h>
#include <fcntl.h>
#include <ortdl/byte_view.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace ortdl::detail {
namespace {

constexpr size_t kWindow = size_t{1} << 16U;

std::string last_error() { return std::generic_category().message(errno); }

}  // namespace

WindowedFile::WindowedFile(std::string path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  TORCH_CHECK(descriptor_ >= 0, "the model file '", path_, "' cannot be read: ", last_error());
  struct stat found{};
  if (fstat(descriptor_, &found) != 0 || !S_ISREG(found.st_mode)) {
    close(descriptor_);
    TORCH_CHECK(false, "the model file '", path_, "' cannot be read: it is no regular file");
  }
  size_ = static_cast<size_t>(found.st_size);
}

WindowedFile::~WindowedFile() { close(descriptor_); }

void WindowedFile::move_window(size_t place) {
  // What is read next may lie on either side of it.
  start_ = place - place % kWindow;
  const size_t wanted = std::min(kWindow, size_ - start_);
  window_.resize(wanted);
  for (size_t known = 0; known < wanted;) {
    const ssize_t count = pread(descriptor_, window_.data() + known, wanted - known,
                                static_cast<off_t>(start_ + known));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      window_.clear();
      TORCH_CHECK(count == 0, "reading the model file '", path_, "' failed: ", last_error());
      TORCH_CHECK(false, "the model file '", path_, "' had ", size_, " bytes, and was cut to ",
                  start_ + known,
                  " while it was read: write it again, and leave it alone while a session is made");
    }
    known += static_cast<size_t>(count);
  }
}

ByteView ByteView::split(size_t count) noexcept {
  ByteView taken = *this;
  taken.size_ = count;
  start_ += count;
  size_ -= count;
  return taken;
}

std::string ByteView::text() const {
  if (file_ == nullptr) {
    return {reinterpret_cast<const char*>(memory_ + start_), size_};
  }
  std::string copied;
  copied.reserve(size_);
  for (size_t i = 0; i < size_; ++i) {
    copied.push_back(static_cast<char>((*this)[i]));
  }
  return copied;
}

}  // namespace ortdl::detail
