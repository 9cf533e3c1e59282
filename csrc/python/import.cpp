#include <ortdl/real_ops.h>
#include <python/args.h>
#include <python/capsule.h>
#include <python/convert.h>
#include <python/current_device_guard.h>
#include <python/device_arg.h>
#include <python/exchange_api.h>
#include <python/gil.h>
#include <python/guarded.h>
#include <python/import.h>
#include <python/ortvalue.h>
#include <python/protocol.h>
#include <python/release_queue.h>

#include <utility>

namespace ortdl::python {
namespace {

// PyTorch's own rule for its protocol, which takes no notice of the grad mode.
ValuePtr import_tensor(const at::Tensor& tensor, const Delivery& delivery) {
  TORCH_CHECK_BUFFER(!tensor.requires_grad(),
                     "the tensor requires grad, and DLPack cannot carry that: use tensor.detach(), "
                     "or to_ortvalue(tensor) under torch.no_grad()");
  const at::Device device = tensor.device();
  const at::Device target = delivery.device.value_or(device);
  if (target == device || !holds_values(device)) {
    return value_of_tensor(tensor, delivery.copy);
  }
  TORCH_CHECK_VALUE(delivery.copy != Copy::kNever, "moving a tensor on ", device, " to ", target,
                    " needs a copy: pass copy=None");
  require_no_capture(device, target);
  // Without the GIL, another thread may drop the caller's.
  const at::Tensor held = tensor;  // NOLINT(performance-unnecessary-copy-initialization)
  const WithoutGil released;
  const RealOps real;
  return Value::from_tensor(held.to(target), Copy::kIfNeeded);
}

// A tensor, unless its class has a protocol of its own. PyTorch's table of C functions would not
// do: it overlooks grad, pending negations and tensors without memory.
bool is_plain_tensor(PyObject* object) {
  if (THPVariable_CheckExact(object)) {
    return true;
  }
  if (!is_tensor(object)) {
    return false;
  }
  const auto own = py::handle(reinterpret_cast<PyObject*>(Py_TYPE(object))).attr("__dlpack__");
  return own.is(py::handle(THPVariableClass).attr("__dlpack__"));
}

ValuePtr import_any(PyObject* object, const Delivery& delivery) {
  if (is_plain_tensor(object)) {
    return import_tensor(THPVariable_Unpack(object), delivery);
  }
  if (PyCapsule_CheckExact(object)) {
    return take_capsule(object, delivery);
  }
  // Of these two the object itself is kept alive, where a capsule would keep less.
  if (const ValuePtr value = value_or_null(object); value.defined()) {
    return deliver(value, delivery);
  }
  CurrentDeviceGuard guard;
  // A table cannot be asked to move the elements.
  const bool by_table = !delivery.device.has_value() && !is_tensor(object);
  if (const DLPackExchangeAPI* exchange = by_table ? find_exchange_api(object) : nullptr) {
    return import_by_exchange_api(*exchange, object, delivery.copy, guard);
  }
  return import_by_protocol(object, delivery, guard);
}

}  // namespace

PyObject* from_dlpack(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count,
                      PyObject* names) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 1,
                     "from_dlpack takes one positional argument and the keywords "
                     "device and copy, but ",
                     count, " positional arguments were given");
    drain_release_queue();
    Delivery delivery;
    for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
      const auto name = py::cast<std::string_view>(py::handle(PyTuple_GET_ITEM(names, i)));
      TORCH_CHECK_TYPE(name == "copy" || name == "device", "from_dlpack has no keyword argument '",
                       name, "'");
      if (name == "copy") {
        delivery.copy = copy_arg(args[count + i]);
      } else if (Py_IsNone(args[count + i]) == 0) {
        delivery.device = device_arg(args[count + i]);
      }
    }
    return wrap_value(import_any(args[0], delivery));
  });
}

}  // namespace ortdl::python
