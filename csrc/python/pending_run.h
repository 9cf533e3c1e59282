#pragma once

#include <ortdl/session.h>
#include <torch/csrc/utils/pybind.h>

namespace ortdl::python {

/// Add the class `PendingRun` to `module`, and `end_runs_in_flight`.
void add_pending_run(py::module& module);

/// The options inside the `onnxruntime.RunOptions` `object`, which they keep alive; new ones for
/// None. \throws c10::TypeError for anything else.
[[nodiscard]] SharedRunOptions shared_run_options(PyObject* object);

/// Start a run of `session`, as a `PendingRun`. \throws what `Session::run_async` does.
[[nodiscard]] py::object start_run(const Session& session, Feeds feeds, SharedRunOptions options);

}  // namespace ortdl::python
