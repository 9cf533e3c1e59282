#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/core/StreamGuard.h>
#include <ortdl/session.h>
#include <ortdl/wording.h>

#include <atomic>
#include <exception>
#include <memory>

namespace ortdl {

// A run under way, and all that it needs. Whoever works on it owns it: ONNX Runtime until it calls
// back, then one of PyTorch's threads.
class Session::AsyncRun final : public c10::intrusive_ptr_target {
 public:
  AsyncRun(SessionPtr session, Feeds feeds, std::vector<size_t> outputs, SharedRunOptions options,
           FuturePtr future)
      : in_flight_(std::make_unique<detail::InFlight>(std::move(options))),
        future_(std::move(future)),
        session_(std::move(session)),
        feeds_(std::make_unique<Feeds>(std::move(feeds))),
        inputs_(session_->given(*feeds_)),
        outputs_(std::move(outputs)),
        raw_(outputs_.size(), nullptr),
        made_(outputs_.size()) {
    for (const size_t index : outputs_) {
      names_.push_back(session_->outputs_[index].name.c_str());
    }
    if (session_->lanes_ != nullptr) {
      stream_ = current_stream(session_->lanes_->device());
      require_no_capture(*stream_);
    }
  }

  static void start(c10::intrusive_ptr<AsyncRun> run) {
    if (run->stream_.has_value() || !run->start_in_onnxruntime()) {
      run->continue_in_pytorch();
    }
    static_cast<void>(run.release());  // another thread's now, and perhaps gone already
  }

 private:
  // False if the session has no thread for it: its callers are all the threads that it has.
  bool start_in_onnxruntime() {
    const Session& session = *session_;
    handed_over_.store(true, std::memory_order_release);
    const StatusHandle refused(api().RunAsync(
        session.handle_.get(), in_flight_->options(), inputs_.names.data(), inputs_.values.data(),
        inputs_.values.size(), names_.data(), names_.size(), raw_.data(), &AsyncRun::ended, this));
    return refused == nullptr;
  }

  // ONNX Runtime's callback, on a thread of the session.
  static void ended(void* owned, ::OrtValue** outputs, size_t /*count*/,
                    OrtStatus* status) noexcept {
    auto run = c10::intrusive_ptr<AsyncRun>::reclaim(static_cast<AsyncRun*>(owned));
    run->ran_ = run->handed_over_.load(std::memory_order_acquire);
    run->failed_.reset(status);
    for (size_t i = 0; outputs != nullptr && i < run->made_.size(); ++i) {
      run->made_[i].reset(outputs[i]);
    }
    try {
      run->continue_in_pytorch();
    } catch (const std::exception&) {
      run->future_->setError(std::current_exception());
      run->in_flight_.reset();  // the rest leaks, since this thread must not release it
    }
    static_cast<void>(run.release());
  }

  // A session that goes waits for its threads, perhaps with Python's GIL. So none of them drops the
  // last reference to the session, or to a tensor, which may need the GIL; nor do they do what
  // follows when the future is complete. The thread that goes on owns this object.
  void continue_in_pytorch() {
    at::launch([this] { c10::intrusive_ptr<AsyncRun>::reclaim(this)->finish(); });
  }

  void finish() {
    c10::IValue value;
    std::exception_ptr error;
    try {
      value = results();
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    // Who waits for the future finds nothing held any more.
    made_.clear();
    feeds_.reset();
    session_.reset();
    if (error != nullptr) {
      future_->setError(error);
      return;
    }
    const c10::OptionalStreamGuard stream(stream_);
    future_->markCompleted(std::move(value));
  }

  std::vector<at::Tensor> results() {
    const at::ThreadLocalStateGuard caller(state_);
    const c10::OptionalStreamGuard stream(stream_);
    if (!ran_) {
      return session_->run(*feeds_, outputs_, in_flight_->options());
    }
    check_status(failed_.release());
    Values values;
    for (ValueHandle& output : made_) {
      values.push_back(c10::make_intrusive<Value>(std::move(output)));
    }
    return to_tensors(*feeds_, values);
  }

  std::unique_ptr<detail::InFlight> in_flight_;  // goes last
  FuturePtr future_;
  SessionPtr session_;
  std::unique_ptr<Feeds> feeds_;
  Given inputs_;  // into feeds_
  std::vector<size_t> outputs_;
  std::vector<const char*> names_;  // of outputs_
  std::vector<::OrtValue*> raw_;    // where ONNX Runtime puts them
  std::vector<ValueHandle> made_;
  StatusHandle failed_;
  // Orders what the caller wrote before what ONNX Runtime's thread does. ONNX Runtime does so as
  // well, but was not compiled for the sanitizer of threads, which therefore does not see it.
  std::atomic<bool> handed_over_ = false;
  bool ran_ = false;
  at::ThreadLocalState state_;         // the caller's
  std::optional<c10::Stream> stream_;  // the same, where the session works on an accelerator
};

FuturePtr Session::run_async(at::TensorList inputs) const {
  Feeds given = feeds();
  complete(given, inputs);
  return run_async(std::move(given), all_outputs_);
}

FuturePtr Session::run_async(Feeds feeds, std::vector<size_t> outputs,
                             SharedRunOptions options) const {
  TORCH_CHECK(home_.is_here(),
              "this session was made before the process forked, and the threads that run_async "
              "works with did not come along: ",
              kForkRemedy,
              ". Without run_async, a session of sequential execution on the CPU with "
              "intra_op_num_threads=1 runs in a child as well: call it");
  std::ranges::for_each(outputs, [this](size_t index) { check_output(index); });
  feeds.pin();
  auto self = SessionPtr::unsafe_reclaim_from_nonowning(const_cast<Session*>(this));
  std::vector<at::Device> devices;
  if (lanes_ != nullptr) {
    devices.push_back(lanes_->device());
  }
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors(), devices);
  AsyncRun::start(c10::make_intrusive<AsyncRun>(
      std::move(self), std::move(feeds), std::move(outputs),
      options != nullptr ? std::move(options) : make_run_options(), future));
  return future;
}

}  // namespace ortdl
