#pragma once

#include <Python.h>
#include <python/capsule.h>
#include <python/current_device_guard.h>

/// \file
/// Asking a producer for its elements as the Python array API standard (2024.12) says.
namespace ortdl::python {

/// A value of `object`, which has `__dlpack__` and `__dlpack_device__`. It is asked, with its
/// device current, to let the stream that is current there wait for the elements, and for a move to
/// the CPU if `delivery` wants them there; what it cannot move is moved here.
/// \param guard Made before `object` was asked for anything.
/// \throws c10::TypeError if one of the two is missing, what the producer raised as it is, and as
///   `take_capsule` does. c10::Error if the host would have to wait for a stream that is captured.
[[nodiscard]] ValuePtr import_by_protocol(PyObject* object, const Delivery& delivery,
                                          CurrentDeviceGuard& guard);

}  // namespace ortdl::python
