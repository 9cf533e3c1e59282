#pragma once

/// \file
/// The whole of ortdl: PyTorch tensors as ONNX Runtime values and back, and sessions on tensors.
#include <ortdl/binding.h>
#include <ortdl/dlpack.h>
#include <ortdl/element_type.h>
#include <ortdl/empty_sequence.h>
#include <ortdl/feeds.h>
#include <ortdl/foreign.h>
#include <ortdl/in_flight.h>
#include <ortdl/initializers.h>
#include <ortdl/interrupt.h>
#include <ortdl/live.h>
#include <ortdl/memory.h>
#include <ortdl/providers.h>
#include <ortdl/runtime.h>
#include <ortdl/sequence.h>
#include <ortdl/session.h>
#include <ortdl/stream.h>
#include <ortdl/stream_use.h>
#include <ortdl/text.h>
#include <ortdl/value.h>
