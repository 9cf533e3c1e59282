#pragma once

#include <ortdl/runtime.h>
#include <ortdl/value.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

/// \file
/// Weights of a model that are given to its session, which shares their memory.
namespace ortdl {

struct SessionConfig;

/// What takes the place of the model's initializer `name`.
struct NamedValue {
  std::string name;
  ValuePtr value;
};

/// The saved form: name, ONNX's element type, shape, and the elements' bytes as a flat uint8
/// tensor.
using SavedInitializer = std::tuple<std::string, int64_t, std::vector<int64_t>, at::Tensor>;

/// The saved form of `initializers`: their elements as they are now.
[[nodiscard]] std::vector<SavedInitializer> save_initializers(
    const std::vector<NamedValue>& initializers);
/// The values that `save_initializers` saved; memory that only `saved` holds is taken, not copied.
/// \throws c10::ValueError if `saved` makes no sense.
[[nodiscard]] std::vector<NamedValue> load_initializers(std::vector<SavedInitializer> saved);

/// \throws c10::ValueError if `providers` has another one than the CPU's, which may copy or compile
///   weights.
void require_cpu_for_initializers(const std::vector<std::string>& providers);

/// Initializers as ONNX Runtime takes them: values that point to the memory and own nothing, since
/// it refuses those that do. They and the `ValuePtr`s that they were made of must outlive the
/// session.
using BorrowedValues = std::vector<ValueHandle>;

/// What a session with initializers is loaded with.
struct InitializedOptions {
  SessionOptionsHandle options;
  BorrowedValues borrowed;
};

/// A copy of `options` with the initializers of `config`.
///
/// Graph optimizations and prepacking are switched off in it, whatever `options` say: ONNX Runtime
/// would compute with what it once made of the weights, and later writes to them go unseen.
/// \throws c10::ValueError for a name that the model's graph has no initializer of, a name that is
///   given twice, another shape or device, a model that is no ONNX, or if other providers than the
///   CPU's are asked for; c10::TypeError for another element type.
[[nodiscard]] InitializedOptions with_initializers(const OrtSessionOptions* options,
                                                   const SessionConfig& config);

}  // namespace ortdl
