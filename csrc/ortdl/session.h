#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ortdl/feeds.h>
#include <ortdl/fork.h>
#include <ortdl/graph_shapes.h>
#include <ortdl/in_flight.h>
#include <ortdl/io_binding.h>
#include <ortdl/lane.h>
#include <ortdl/live.h>
#include <ortdl/node.h>
#include <ortdl/prepared.h>
#include <ortdl/session_config.h>
#include <ortdl/targets.h>
#include <ortdl/value.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// \file
/// An ONNX model that takes tensors and gives tensors.
namespace ortdl {

/// What will be a list of tensors, as PyTorch's future.
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

/// A loaded ONNX model, as C++, TorchScript (`torch.classes.ortdl.InferenceSession`) and Python
/// hold it. Immutable: any number of threads may run it at once, and no lock of this library is
/// held while ONNX Runtime works. Tensors that it gave outlive it.
///
/// Where its providers work on an accelerator, inputs are read and outputs left there, in the order
/// of PyTorch's current stream: see `run_on_device`.
class Session final : public torch::CustomClassHolder {
 public:
  /// Load the model that `config` describes, with options made from it.
  /// \throws OrtError if ONNX Runtime refuses the model.
  /// \throws c10::Error if a file has another digest than `config` says, or none is there.
  /// \throws c10::ValueError if a provider is not offered, or PyTorch lacks its device.
  /// \throws c10::Error if the first provider works on an accelerator and got no part of the model
  ///   whose inputs or outputs are there: ONNX Runtime would run it elsewhere and not say so.
  explicit Session(const SessionConfig& config);
  /// As above, but with `options` (those that a caller of onnxruntime set up, without the providers
  /// of `config`); `config` then describes them, for saving.
  Session(const SessionConfig& config, const SessionOptionsHandle& options);
  Session(const Session&) = delete;
  Session(Session&&) = delete;
  Session& operator=(const Session&) = delete;
  Session& operator=(Session&&) = delete;
  /// Waits for an accelerator that still works for it. In a process forked since, a session with
  /// threads leaks: they are not there to end.
  ~Session() override;

  /// Run the model. `inputs` are its inputs in its order; the result is its outputs in its order.
  ///
  /// Contiguous inputs are read in place, others from a contiguous copy. They must be on the device
  /// where the session wants them, unless its config has `kMoveInputs`. Outputs own their memory,
  /// which is never that of an input.
  /// \throws c10::ValueError for a wrong number of inputs, rank, size or device.
  /// \throws c10::TypeError for a wrong dtype, or if an output is no tensor.
  /// \throws c10::BufferError for an input that has no memory to read, or requires grad while grad
  ///   mode is on.
  /// \throws OrtError if ONNX Runtime failed.
  [[nodiscard]] std::vector<at::Tensor> run(at::TensorList inputs) const;

  /// Run the model on complete `feeds` for the outputs with the indices `outputs` only.
  /// \param options ONNX Runtime's options for this run; null for its defaults.
  [[nodiscard]] std::vector<at::Tensor> run(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                            OrtRunOptions* options = nullptr) const;

  /// Empty feeds, and what an earlier run left, for the run below.
  [[nodiscard]] Preparation prepare() const { return prepared_->take(); }
  /// As above, with the feeds of `prepared`, which this session lent, but faster: where all outputs
  /// are wanted, and are small and of shapes that follow from those of the inputs, they are written
  /// into the memory of an earlier run's once nothing else holds that.
  /// \throws as above; c10::ValueError if an input was not given.
  [[nodiscard]] std::vector<at::Tensor> run(Prepared& prepared, at::ArrayRef<size_t> outputs,
                                            OrtRunOptions* options = nullptr) const;

  using Values = PreparedValues;
  /// As above, but outputs of any kind, as values. One that is an input of the model is that
  /// input's memory, and outputs asked for twice share theirs.
  /// \param targets Empty, or for each output a value to write it into, or null. Where
  ///   `writes_in_place` says no, it is left alone and another value comes back. With any of them
  ///   no output may be asked for twice.
  [[nodiscard]] Values run_values(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                  OrtRunOptions* options = nullptr, Values targets = {}) const;

  /// Run the model on complete `feeds` and write outputs into `targets`, without a copy but for
  /// outputs that are inputs. Autograd sees the targets as written to, also if the run fails.
  /// \throws as `run` does; c10::ValueError if targets share memory with each other, an input or an
  ///   initializer that was given; OrtError too if an output has another shape than its target.
  void run_into(const Targets& targets, const Feeds& feeds, OrtRunOptions* options = nullptr) const;
  /// The same for all inputs and all outputs, in the model's order.
  void run_into(at::TensorList outputs, at::TensorList inputs) const;

  /// A binding for `run_bound`; null if the session works on an accelerator.
  [[nodiscard]] IoBindingHandle make_binding() const;
  /// Run the model on the CPU with what is bound. \throws OrtError if ONNX Runtime failed.
  void run_bound(const OrtIoBinding* binding, OrtRunOptions* options = nullptr) const;

  /// Whether the session can run in this process: a child that was forked since the session was
  /// made has none of its threads, and no accelerator.
  [[nodiscard]] bool runs_here() const noexcept { return home_.is_here() || !has_threads_; }
  /// Every way to run the session begins here. \throws c10::Error unless `runs_here`.
  void require_here() const {
    if (!runs_here()) [[unlikely]] {
      refuse_forked();
    }
  }

  /// Start a run that goes on in ONNX Runtime's threads. The future becomes what `run` returns, a
  /// list of tensors, or has the error of the run; what is wrong with the inputs is thrown here.
  ///
  /// The session (which an intrusive_ptr must own) and the inputs are kept until the run ends, and
  /// nobody must write to the inputs before. Runs of one session go on at once, as many as it has
  /// threads beside one, and the rest in turn. If its only thread is the caller's, or it works on
  /// an accelerator, PyTorch's inter-op threads do the work, in the order of the stream that is
  /// current now. They complete all futures.
  /// \throws what `run` throws before ONNX Runtime starts; c10::Error after `end_runs_in_flight`.
  [[nodiscard]] FuturePtr run_async(at::TensorList inputs) const;
  /// As above, on complete `feeds` for the outputs with the indices `outputs` only.
  /// \param options For this run; null for the defaults. `terminate` ends the run.
  [[nodiscard]] FuturePtr run_async(Feeds feeds, std::vector<size_t> outputs,
                                    SharedRunOptions options = nullptr) const;

  [[nodiscard]] const std::vector<Node>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<Node>& outputs() const noexcept { return outputs_; }
  /// Empty feeds for one run.
  [[nodiscard]] Feeds feeds() const { return Feeds(inputs_, moves_inputs_); }
  /// The names of its providers, preferred first; the CPU's is always last.
  [[nodiscard]] std::vector<std::string> providers() const;
  /// The index of every output, for `run`.
  [[nodiscard]] at::ArrayRef<size_t> all_outputs() const noexcept { return all_outputs_; }
  [[nodiscard]] const SessionConfig& config() const noexcept { return config_; }
  /// The declared shapes, for callers that rely on them.
  [[nodiscard]] const GraphShapes& shapes() const noexcept { return shapes_; }

  /// The index of the input `name`. \throws c10::ValueError that lists the inputs.
  [[nodiscard]] size_t input_index(std::string_view name) const;
  /// The index of the output `name`. \throws c10::ValueError that lists the outputs.
  [[nodiscard]] size_t output_index(std::string_view name) const;
  /// Whether ONNX Runtime can write the output number `output` into memory that it is given. It
  /// writes nothing for an output that is an input, and what a sequence among the inputs shares
  /// with an output is not known.
  [[nodiscard]] bool writes_in_place(size_t output) const;
  /// The index of the input that the output number `output` is, if it is one.
  [[nodiscard]] std::optional<size_t> input_of(size_t output) const;

  /// Lets go of the model once the last strong reference is gone: a weak one keeps the object.
  void release_resources() override;

 private:
  Session(const ProviderUse& use, SessionConfig config, const SessionOptionsHandle& options);
  class AsyncRun;
  void complete(Feeds& feeds, at::TensorList inputs) const;
  void check_output(size_t index) const;
  [[noreturn]] static void refuse_forked();
  // What ONNX Runtime is given: an optional input that is null is left out.
  struct Given {
    c10::SmallVector<const char*, 8> names;
    c10::SmallVector<const ::OrtValue*, 8> values;
  };
  [[nodiscard]] Given given(const Feeds& feeds) const;
  [[nodiscard]] static std::vector<at::Tensor> to_tensors(const Feeds& feeds, const Values& values);
  [[nodiscard]] std::shared_ptr<Lanes> make_lanes(at::Device accelerator,
                                                  std::optional<c10::Stream> fixed) const;
  // What can make a stream for each run, or null.
  [[nodiscard]] const OrtEpDevice* stream_maker(at::Device accelerator) const;
  [[nodiscard]] Values run_on_cpu(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                  OrtRunOptions* options, Values targets) const;
  [[nodiscard]] Values run_on_accelerator(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                          OrtRunOptions* options, const Values& targets) const;
  // ONNX Runtime's two ways of running a model.
  [[nodiscard]] StatusHandle call(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                  OrtRunOptions* options, ::OrtValue** made) const;
  [[nodiscard]] StatusHandle call_bound(const OrtIoBinding* binding, OrtRunOptions* options) const;
  // Whether a run for all outputs can write into those of a run before it.
  [[nodiscard]] bool can_repeat() const;
  [[nodiscard]] StatusHandle repeat(Prepared::Kept& kept, const Feeds& feeds, bool renewed,
                                    OrtRunOptions* options) const;
  [[nodiscard]] IoBindingHandle bind(const Feeds& feeds, const Values& outputs) const;

  HomeProcess home_;
  bool has_threads_ = true;
  std::optional<detail::Counted<detail::Kind::kSession>> counted_;
  SessionConfig config_;
  std::optional<at::DeviceType> restored_;  // whose current device loading and runs may change
  BorrowedValues weights_;                  // of config_'s initializers, which own the memory
  SessionHandle handle_;
  std::vector<Node> inputs_;
  std::vector<Node> outputs_;
  GraphShapes shapes_;
  std::vector<const char*> input_names_;  // into inputs_
  std::vector<size_t> all_outputs_;
  std::vector<const OrtEpDevice*> ep_devices_;  // of each input, or null
  bool moves_inputs_;
  bool torch_memory_;
  mutable std::atomic<bool> repeats_ = false;
  std::shared_ptr<Lanes> lanes_;  // null on the CPU
  std::unique_ptr<PreparedRuns> prepared_;
};

using SessionPtr = c10::intrusive_ptr<Session>;

}  // namespace ortdl
