#pragma once

#include <ortdl/feeds.h>
#include <ortdl/lane.h>
#include <ortdl/node.h>
#include <ortdl/value.h>

#include <vector>

/// \file
/// One run of a session whose providers work on an accelerator.
namespace ortdl {

/// Run `session` for `outputs`, each of which is left where the session makes it.
///
/// The work is ordered after the stream that is current on the accelerator and before what follows
/// on it, which is the values' stream from then on. The host waits only if an output is on the CPU,
/// or if the providers' stream is not known. The current device and streams stay as they were.
/// \param inputs What the session takes, as `feeds` has it.
/// \param lanes Kept by the outputs, whose memory the providers get back.
/// \param torch_memory Whether outputs are in memory of PyTorch's allocator instead.
/// \param options The caller's for this run, or null. They are not changed, since other runs may
///   have them too, so a plug-in cannot be given a stream with them: the host waits on both sides.
/// \param in_place Empty, or for each output a value where it is written, or null.
/// \throws c10::ValueError if `options` would let outputs be read before they are there.
/// \throws c10::Error while the current stream is being captured: ONNX Runtime would allocate, and
///   may wait, behind the capture's back. OrtError if the run failed.
[[nodiscard]] std::vector<ValuePtr> run_on_device(
    OrtSession* session, const std::shared_ptr<Lanes>& lanes, const std::vector<Node>& inputs,
    const Feeds& feeds, const std::vector<const Node*>& outputs, bool torch_memory,
    OrtRunOptions* options, at::ArrayRef<ValuePtr> in_place = {});

}  // namespace ortdl
