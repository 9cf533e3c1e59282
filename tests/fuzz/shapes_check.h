#pragma once

#include <ortdl/graph_shapes.h>

#include <string_view>
#include <vector>

/// \file
/// Claims about the shapes that a model declares.
namespace ortdl::fuzz {

/// Takes the inputs and outputs out of a model's bytes and makes the claims below.
void check_shapes_of_model(std::string_view model);

/// The JSON is JSON; tensors that keep to the declaration pass, others do not; and a shape follows
/// from the inputs if and only if each of its sizes does.
void check_shapes(const std::vector<Node>& inputs, const std::vector<Node>& outputs);

}  // namespace ortdl::fuzz
