#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// \file
/// The files that a model consists of, its own and those of its external data, and whether they are
/// still what a session was loaded from.
namespace ortdl {

/// What changes whenever a file's content does.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t seconds = 0;      ///< of the last change of the file's content or state
  int64_t nanoseconds = 0;  ///< the same, beyond the seconds

  bool operator==(const FileStamp&) const = default;
};

/// A file that a model is read from, as it was when it was looked at.
struct ModelFile {
  std::string name = {};                          ///< as the model has it; empty for its own
  std::string path = {};                          ///< absolute
  std::optional<FileStamp> stamp = std::nullopt;  ///< nothing where there is no regular file
  std::string digest = {};                        ///< empty where it was not asked for
};

/// The model's file at `path`, and behind it each that it names for external data. A file that is
/// no ONNX model names none: ONNX Runtime says so when it loads it.
/// \param digests Whether to take the digests, which reads every file that is there.
[[nodiscard]] std::vector<ModelFile> model_files(const std::string& path, bool digests);

/// The content of `file` as a flat uint8 tensor.
/// \throws c10::Error if it cannot be read or is not as it was.
[[nodiscard]] at::Tensor read_file(const ModelFile& file);

/// \throws c10::Error if `file` is not as it was.
void require_unchanged(const ModelFile& file);

/// \throws c10::Error if something else than a regular file is where one of `files` ought to be:
///   reading a FIFO or a device may never end. What is not there at all is left to ONNX Runtime.
void require_regular(const std::vector<ModelFile>& files);

/// \throws c10::ValueError if one of `files` lies outside of the model's folder, and outside of
/// that
///   which its file really lies in: by an absolute name, by "..", or by a link. ONNX Runtime
///   refuses to load such a model.
void require_inside(const std::vector<ModelFile>& files);

/// Compare what a saved session expects of its files with those that there are.
/// \throws c10::Error if one is missing or has another digest; c10::ValueError if one is not among
///   the expected.
void require_same(const std::vector<ModelFile>& expected, const std::vector<ModelFile>& found);

}  // namespace ortdl
