#pragma once

#include <ortdl/model_proto.h>

#include <optional>
#include <string_view>

/// \file
/// What a model says, read a second time: by recursion over fields that were copied out, which
/// shares nothing with the library's reader but the meaning.
namespace ortdl::fuzz {

/// Nothing if the bytes are no model.
std::optional<ModelProto> reference_of(std::string_view model);

/// Whether both say the same, whatever the order of what has none.
bool is_same(ModelProto left, ModelProto right);

}  // namespace ortdl::fuzz
