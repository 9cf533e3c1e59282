#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstddef>

/// \file
/// Objects of classes that others made with pybind11.
namespace ortdl::python {

/// The C++ object that `object`, of a class of pybind11's, holds; null if it was never made, or is
/// one part of a class with several bases of C++.
[[nodiscard]] void* held_by(PyObject* object) noexcept;

/// Such a class, of whose objects each owns its C++ object alone.
///
/// Python lets `object.__class__` be set from one class of pybind11's to another, and nothing in
/// the object says what it was made as. What tells is how much memory its C++ object has.
class OwnedClass {
 public:
  OwnedClass() = default;
  /// \param made An object of `cls`, which the caller keeps the class alive for.
  OwnedClass(PyObject* cls, PyObject* made) noexcept;

  /// Whether objects of the class are laid out in the way that is known here.
  [[nodiscard]] bool is_known() const noexcept { return size_ != 0; }
  /// Whether `object` is of the class, or of one that derives from it, for Python.
  [[nodiscard]] bool is_class_of(PyObject* object) const noexcept {
    return cls_ != nullptr && PyObject_TypeCheck(object, cls_) != 0;
  }
  /// The C++ object that `object` owns; null if it was made as something else, or never.
  [[nodiscard]] void* owned_by(PyObject* object) const noexcept;

 private:
  PyTypeObject* cls_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ortdl::python
