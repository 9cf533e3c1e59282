#include <malloc.h>
#include <python/instance.h>

#include <algorithm>

// Every release of pybind11 has one layout of its objects, and whether this is it can be tried.

namespace ortdl::python {
namespace {

using Instance = py::detail::instance;

// The C++ object that `object` owns, and may delete.
void* deletable(PyObject* object) noexcept {
  const auto* instance = reinterpret_cast<const Instance*>(object);
  void* const found = held_by(object);
  // A second pointer to the object is in its holder, a std::unique_ptr.
  const bool owns = found != nullptr && instance->owned && instance->simple_holder_constructed &&
                    found == instance->simple_value_holder[1];
  return owns ? found : nullptr;
}

// glibc's malloc may give a little more than the same request got before.
bool is_same_size(size_t one, size_t other) noexcept {
  constexpr size_t slack = 16;
  return std::max(one, other) - std::min(one, other) <= slack;
}

}  // namespace

void* held_by(PyObject* object) noexcept {
  const auto* instance = reinterpret_cast<const Instance*>(object);
  return instance->simple_layout ? instance->simple_value_holder[0] : nullptr;
}

OwnedClass::OwnedClass(PyObject* cls, PyObject* made) noexcept
    : cls_(reinterpret_cast<PyTypeObject*>(cls)) {
  if (cls_->tp_basicsize == sizeof(Instance) && Py_TYPE(made) == cls_) {
    void* const object = deletable(made);
    size_ = object == nullptr ? 0 : malloc_usable_size(object);
  }
}

void* OwnedClass::owned_by(PyObject* object) const noexcept {
  void* const found = is_known() && is_class_of(object) ? deletable(object) : nullptr;
  return found != nullptr && is_same_size(malloc_usable_size(found), size_) ? found : nullptr;
}

}  // namespace ortdl::python
