#pragma once

#include <Python.h>
#include <c10/core/Device.h>

/// \file
/// Devices as Python callers name them.
namespace ortdl::python {

/// The device that `device` names: a torch.device, its name, or DLPack's pair of type and index.
/// An accelerator without an index is its current device.
/// \throws c10::TypeError for anything else, c10::ValueError if no value can be made there.
[[nodiscard]] at::Device device_arg(PyObject* device);

}  // namespace ortdl::python
