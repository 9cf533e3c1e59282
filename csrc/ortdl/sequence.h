#pragma once

#include <c10/util/ArrayRef.h>
#include <ortdl/value.h>

#include <vector>

/// \file
/// Values that are made of others: sequences and maps.
namespace ortdl {

/// A sequence of `items`, tensors of one element type, or maps of one kind. It shares the tensors'
/// memory and keeps it alive.
/// \throws OrtError if there are no items, or ONNX Runtime has no sequence of them.
[[nodiscard]] ValuePtr make_sequence(at::ArrayRef<ValuePtr> items);

/// A map from the elements of `keys` to those of `values`, both copied: flat tensors, of int64 or
/// strings, and of strings, int64, float or double.
/// \throws OrtError if they are not of one length, or ONNX Runtime has no map of them.
[[nodiscard]] ValuePtr make_map(const Value& keys, const Value& values);

/// What `value` is made of: the items of a sequence, or the keys and the values of a map as two
/// flat tensors, in the same order. ONNX Runtime gives copies.
/// \throws c10::TypeError if it is neither.
[[nodiscard]] std::vector<ValuePtr> parts(const Value& value);

}  // namespace ortdl
