#pragma once

#include <Python.h>
#include <ortdl/dlpack.h>
#include <python/current_device_guard.h>

/// \file
/// DLPack's table of C functions, `__dlpack_c_exchange_api__`, in both directions.
namespace ortdl::python {

/// Put our table on the type `cls`. \throws python_error
void add_exchange_api(PyObject* cls);

/// The table on `object`'s type, or null if it has none of a version that we know.
[[nodiscard]] const DLPackExchangeAPI* find_exchange_api(PyObject* object);

/// A value of `object`, whose type has the table `api`. The stream that is current on an
/// accelerator waits for the one that the producer says it works on; `guard` was made before
/// `object` was asked for anything. \throws as `take_capsule` and `order` do.
[[nodiscard]] ValuePtr import_by_exchange_api(const DLPackExchangeAPI& api, PyObject* object,
                                              Copy copy, CurrentDeviceGuard& guard);

}  // namespace ortdl::python
