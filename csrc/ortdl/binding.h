#pragma once

#include <ortdl/io_binding.h>
#include <ortdl/session.h>

#include <atomic>
#include <optional>
#include <vector>

/// \file
/// Runs on inputs and outputs that are prepared once.
namespace ortdl {

/// What a session reads and writes in each of many runs.
///
/// It keeps the session and the memory that is bound alive, whatever becomes of the tensors: their
/// storages are marked as not resizable, as `Value::from_tensor` does. Each run reads what is in
/// the inputs then, and writes the outputs into the same memory again: what was bound, or, where
/// nothing was, what the first run allocated.
///
/// One thread at a time may use it: a second one gets an error. It may die on any thread.
class Binding final {
 public:
  explicit Binding(SessionPtr session);

  /// Let runs read the input number `index` from `value`, or from a tensor's memory. What was bound
  /// before stays bound if it is refused.
  /// \throws as `Feeds::set` does, but c10::ValueError for every tensor that would have to be
  ///   copied or moved, or if its memory is that of a bound output.
  void bind_input(size_t index, ValuePtr value);
  void bind_input(size_t index, const at::Tensor& tensor);
  /// Let runs write the output number `index` into `value`, or into a tensor's memory.
  /// \throws as `Targets::set` does, c10::ValueError if the memory is that of another output or of
  ///   an input, or of an initializer that the session was given.
  void bind_output(size_t index, ValuePtr value);
  void bind_output(size_t index, const at::Tensor& tensor);
  /// Let the next run allocate the output number `index` where the session makes it.
  void bind_output(size_t index);
  void clear_inputs();
  void clear_outputs();

  /// Run the session. Whatever comes of it, autograd sees the outputs as written to. On an
  /// accelerator it is ordered as `Session::run` is.
  /// \throws c10::ValueError if an input is not bound, or no output is; OrtError if ONNX Runtime
  ///   failed, for outputs of another shape than the bound ones above all.
  void run(OrtRunOptions* options = nullptr);

  /// The outputs bound, in the order in which they were.
  /// \throws c10::Error if one is not there before the first run.
  [[nodiscard]] std::vector<ValuePtr> outputs() const;

  [[nodiscard]] const SessionPtr& session() const noexcept { return session_; }

 private:
  class Use;

  void renew_sequences();
  void bind(size_t index, ValuePtr value);
  void require_apart(const Feeds& inputs, std::optional<size_t> replaced, const ValuePtr& by) const;

  SessionPtr session_;
  Feeds inputs_;
  std::vector<size_t> indices_;
  std::vector<ValuePtr> values_;  // of each output, null before it is allocated
  IoBindingHandle handle_;        // null on an accelerator
  mutable std::atomic<bool> used_ = false;
};

}  // namespace ortdl
