#include <c10/util/Exception.h>
#include <c10/util/hash.h>
#include <ortdl/digest.h>

#include <fstream>

namespace ortdl {
namespace {

std::string sha1(const std::string& text) {
  c10::sha1 hash(text);
  if (text.empty()) {
    hash.reset();  // which its constructor leaves out
  }
  return hash.str();
}

}  // namespace

std::string file_digest(const std::string& path) {
  constexpr size_t part_size = size_t{1} << 20U;
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file.is_open(), "the model's file '", path, "' cannot be read");
  std::string digests;
  std::string part;
  do {
    part.resize(part_size);
    file.read(part.data(), static_cast<std::streamsize>(part_size));
    part.resize(static_cast<size_t>(file.gcount()));
    digests += sha1(part);
  } while (file);
  TORCH_CHECK(!file.bad(), "reading the model's file '", path, "' failed");
  return sha1(digests);
}

}  // namespace ortdl
