#pragma once

#include <string>
#include <string_view>

/// \file
/// A folder for models in files.
namespace ortdl::fuzz {

/// A folder of this process, with a file `w.bin` of 16 floats, all of them 2, and a link `out` that
/// leaves it. It goes with the object.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder(Folder&&) = delete;
  Folder& operator=(const Folder&) = delete;
  Folder& operator=(Folder&&) = delete;
  ~Folder();

  /// Makes a file, or makes it anew, and returns its path.
  [[nodiscard]] std::string write(const std::string& name, std::string_view content) const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace ortdl::fuzz
