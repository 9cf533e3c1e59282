#pragma once

#include <Python.h>
#include <ortdl/stream.h>

#include <cstdint>
#include <optional>

/// \file
/// Streams as DLPack's Python protocol and its C functions number them.
///
/// | number        | CUDA                | ROCm           | CPU            |
/// |---------------|---------------------|----------------|----------------|
/// | None          | default stream      | default stream | nothing to do  |
/// | -1            | no synchronisation  | the same       | nothing to do  |
/// | 0             | refused: ambiguous  | default stream | refused        |
/// | 1             | default stream      | refused        | refused        |
/// | 2             | per thread: refused | refused        | refused        |
/// | another, even | the stream's handle | the same       | refused        |
namespace ortdl::python {

/// The stream that `__dlpack__(stream=)` of a value on `device` names, which has to wait for the
/// value; nothing where none has to. A null `stream` is None.
/// \throws c10::TypeError for a bool or no integer, c10::ValueError for a number that names no
///   stream of `device`, c10::BufferError for the per-thread default stream, which PyTorch lacks.
[[nodiscard]] std::optional<c10::Stream> stream_arg(PyObject* stream, at::Device device);

/// The number by which a producer on `stream`'s device is asked to let `stream` wait; -1 while
/// `stream` is being captured into a graph, which no other stream's work may enter.
[[nodiscard]] int64_t stream_number(c10::Stream stream);

/// The stream on `device` that a producer's C function gave as `handle`.
/// \throws c10::BufferError for what cannot be a handle.
[[nodiscard]] c10::Stream stream_of_producer(at::Device device, void* handle);

}  // namespace ortdl::python
