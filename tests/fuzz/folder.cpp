#include "folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "check.h"

namespace ortdl::fuzz {

namespace fs = std::filesystem;

Folder::Folder() : path_(fs::temp_directory_path() / "ortdl_fuzz_XXXXXX") {
  require(mkdtemp(path_.data()) != nullptr, "a folder for models can be made");
  std::string twos;
  for (int i = 0; i < 16; ++i) {
    twos += std::string("\0\0\0\x40", 4);
  }
  static_cast<void>(write("w.bin", twos));
  fs::create_symlink("/etc/passwd", fs::path(path_) / "out");
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, std::string_view content) const {
  const std::string path = fs::path(path_) / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace ortdl::fuzz
