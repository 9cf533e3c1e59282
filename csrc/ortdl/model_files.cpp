#include <ATen/ops/empty.h>
#include <ortdl/digest.h>
#include <ortdl/model_files.h>
#include <ortdl/model_proto.h>
#include <ortdl/real_ops.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace ortdl {
namespace {

namespace fs = std::filesystem;

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return std::nullopt;
  }
  // Not the time of the content's last change: whoever copies a file may set that at will.
  return FileStamp{.device = found.st_dev,
                   .inode = found.st_ino,
                   .size = found.st_size,
                   .seconds = found.st_ctim.tv_sec,
                   .nanoseconds = found.st_ctim.tv_nsec};
}

ModelFile look_at(std::string name, std::string path) {
  ModelFile file{.name = std::move(name), .path = std::move(path)};
  file.stamp = stamp_of(file.path);
  return file;
}

std::set<std::string> external_locations(const std::string& model) {
  try {
    return read_model_proto(model).external_locations;
  } catch (const c10::Error&) {
    return {};
  }
}

// `path` without links, as far as it exists.
fs::path real(const fs::path& path) {
  std::error_code failed;
  fs::path found = fs::weakly_canonical(path, failed);
  return failed ? path.lexically_normal() : found;
}

// What is there instead of the file.
std::string instead_of_file(const std::string& path) {
  std::error_code unknown;
  const fs::file_status found = fs::status(path, unknown);
  if (!fs::exists(found)) {
    return "there is none";
  }
  return fs::is_directory(found) ? "a folder is there" : "what is there is no regular file";
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

}  // namespace

std::vector<ModelFile> model_files(const std::string& path, bool digests) {
  std::error_code nowhere;  // the current folder may be gone
  const fs::path model = fs::absolute(path, nowhere);
  std::vector<ModelFile> files;
  files.push_back(look_at("", nowhere ? path : model.string()));
  if (files.front().stamp.has_value()) {
    for (const std::string& location : external_locations(files.front().path)) {
      files.push_back(look_at(location, (model.parent_path() / location).string()));
    }
  }
  if (digests) {
    require_inside(files);  // nothing else is to be read
    for (ModelFile& file : files) {
      file.digest = file.stamp.has_value() ? file_digest(file.path) : "";
    }
  }
  return files;
}

at::Tensor read_file(const ModelFile& file) {
  require_unchanged(file);
  const int64_t size = file.stamp.value_or(FileStamp()).size;
  const RealOps real;
  at::Tensor bytes = at::empty({size}, at::kByte);
  std::ifstream stream(file.path, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.mutable_data_ptr<uint8_t>()), size);
  TORCH_CHECK(stream.gcount() == size, "cannot save the session: reading its model's file '",
              file.path, "' gave ", stream.gcount(), " of ", size, " bytes");
  require_unchanged(file);
  return bytes;
}

void require_unchanged(const ModelFile& file) {
  const std::optional<FileStamp> now = stamp_of(file.path);
  TORCH_CHECK(now.has_value(), "the session's model file '", file.path, "' is gone (",
              instead_of_file(file.path),
              "), and without it the session cannot be saved: put it back and make the session "
              "again");
  TORCH_CHECK(now == file.stamp, "the session's model file '", file.path,
              "' has changed since the session began to load it, so it is not what the session "
              "runs, and is not saved: make the session again");
}

void require_regular(const std::vector<ModelFile>& files) {
  for (const ModelFile& file : files) {
    std::error_code unknown;
    const bool may_load = file.stamp.has_value() || !fs::exists(file.path, unknown);
    TORCH_CHECK(may_load || !file.name.empty(), "the model's file '", file.path,
                "' cannot be loaded: ", instead_of_file(file.path),
                ". Give the path of an ONNX file, or the model's bytes");
    TORCH_CHECK(may_load, "the model's external data '", file.name,
                "' cannot be loaded: ", instead_of_file(file.path), ", at '", file.path,
                "'. Put the file with the data there, or save the model with its data inside");
  }
}

void require_inside(const std::vector<ModelFile>& files) {
  const fs::path model(files.front().path);
  const fs::path folder = real(model.parent_path());
  const fs::path real_folder = real(model).parent_path();
  for (const ModelFile& file : files) {
    if (file.name.empty()) {
      continue;
    }
    const fs::path target = real(file.path);
    TORCH_CHECK_VALUE(
        fs::path(file.name).is_relative() &&
            (is_below(target, folder) || is_below(target, real_folder)),
        "the model '", model.string(), "' keeps external data in '", file.name, "', which is '",
        target.string(),
        "' and outside of the model's folder: ONNX Runtime does not load it from there, and it is "
        "not saved. Move the data beside the model (onnx.save with save_as_external_data)");
  }
}

void require_same(const std::vector<ModelFile>& expected, const std::vector<ModelFile>& found) {
  for (const ModelFile& file : found) {
    const auto saved = std::ranges::find(expected, file.path, &ModelFile::path);
    TORCH_CHECK_VALUE(saved != expected.end(), "the saved session is damaged: it says nothing of '",
                      file.path, "', which its model reads");
    TORCH_CHECK(file.stamp.has_value(), "the saved session refers to the file '", file.path,
                "', and ", instead_of_file(file.path),
                ": put the file there, or save the session with embed=True, which saves the model "
                "with it");
    TORCH_CHECK(file.digest == saved->digest, "the file '", file.path,
                "' is not the one that the session was saved with: its digest is ", file.digest,
                " instead of ", saved->digest,
                ". Put the other file back, or make the session again from this one and save that");
  }
}

}  // namespace ortdl
