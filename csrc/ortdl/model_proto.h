#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

/// \file
/// What an ONNX model says of its weights and of where they are, read without ONNX's library.
namespace ortdl {

/// Where a tensor's elements are, if not in the model.
struct ExternalData {
  std::string location;  ///< a path, relative to the model's folder
  uint64_t offset = 0;
  std::optional<uint64_t> length = std::nullopt;  ///< nothing: as many bytes as the shape needs

  bool operator==(const ExternalData&) const = default;
};

/// An initializer of a model's graph.
struct Initializer {
  std::string name;
  int64_t data_type = 0;  ///< ONNX's TensorProto.DataType
  std::vector<int64_t> dims;
  std::optional<ExternalData> external;
};

/// The part of a model that concerns its weights.
struct ModelProto {
  /// Those of the graph itself, in order; not those of the subgraphs in its nodes.
  std::vector<Initializer> initializers;
  /// Those of the subgraphs, and of graphs in functions.
  std::vector<Initializer> nested_initializers;
  /// The outputs of Constant nodes and the names of sparse tensors, of which ONNX Runtime makes
  /// initializers.
  std::set<std::string> constants;
  /// Every file that any tensor names: in subgraphs, functions and sparse tensors as well.
  std::set<std::string> external_locations;
  /// Whether a tensor that is none of `initializers` names one.
  bool external_elsewhere = false;
};

/// Whether `model` is in ONNX Runtime's own file format, which is no ONNX.
[[nodiscard]] bool is_ort_format(std::span<const std::byte> model) noexcept;

/// Read the bytes of an ONNX file. They may be of any content; elements are passed over.
/// \throws c10::ValueError if they are no ONNX model.
[[nodiscard]] ModelProto read_model_proto(std::span<const std::byte> model);

/// Read the ONNX file at `path`, a piece at a time: elements are not read.
/// \throws c10::ValueError if it is no ONNX model, c10::Error if it cannot be read or shrinks.
[[nodiscard]] ModelProto read_model_proto(const std::string& path);

}  // namespace ortdl
