#pragma once

#include <string>

/// \file
/// Telling one file from another by its content.
namespace ortdl {

/// The digest of the file at `path`, 40 hexadecimal digits: SHA-1 of the SHA-1 digests of its parts
/// of 1 MiB, so that no more than a part is in memory. It tells files apart that were mixed up, and
/// is no guard against one made to deceive.
/// \throws c10::Error if the file cannot be read.
[[nodiscard]] std::string file_digest(const std::string& path);

}  // namespace ortdl
