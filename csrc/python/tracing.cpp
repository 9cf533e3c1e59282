#include <ortdl/tracing.h>
#include <python/tracing.h>
#include <torch/csrc/utils/pybind.h>

namespace ortdl::python {
namespace {

bool is_exporting() noexcept {
  const py::gil_scoped_acquire gil;
  try {
    return py::module_::import("torch.compiler").attr("is_exporting")().cast<bool>();
  } catch (const std::exception&) {
    PyErr_Clear();
    return false;
  }
}

}  // namespace

void install_exporting_hook() noexcept { set_exporting_hook(&is_exporting); }

}  // namespace ortdl::python
