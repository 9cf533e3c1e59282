#pragma once

#include <Python.h>
#include <ortdl/value.h>

#include <string>

/// \file
/// Values of the onnxruntime package.
namespace ortdl::python {

/// Tell this module what an `onnxruntime.OrtValue` is, and the class of the object that it wraps.
/// \param made A native object over a tensor.
/// \throws c10::TypeError unless they are classes.
void set_stock_classes(PyObject* wrapper, PyObject* native, PyObject* made);

/// A value over the memory of the `onnxruntime.OrtValue` `object`, which it keeps alive together
/// with the array that onnxruntime's own object keeps; null if `object` is something else.
/// ONNX Runtime's allocator knows no streams: on an accelerator, drop it when its readers are done.
///
/// It says nothing of streams: on an accelerator its elements have to be ready for the stream that
/// is current there, as they are after a run that onnxruntime synchronised.
/// \throws c10::TypeError if it is no tensor, or of an unsupported type.
/// \throws c10::ValueError if this PyTorch has no device for its memory.
[[nodiscard]] ValuePtr value_of_stock(PyObject* object);

/// What to say of `object`, which is none of the values that are known here.
[[nodiscard]] std::string described_stranger(PyObject* object);

}  // namespace ortdl::python
