#include "machine.h"

#include <c10/util/StringUtil.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace ortdl::test::fake {

Queue& Machine::add(c10::DeviceIndex device, c10::StreamId id, std::string name) {
  queues_.push_back(std::make_unique<Queue>(
      Queue{.device = device, .id = id, .name = c10::str('s', int{device}, '.', name)}));
  return *queues_.back();
}

void Machine::reset() {
  for (c10::DeviceIndex device = 0; device < kDevices; ++device) {
    synchronize_device(device);
  }
  const std::scoped_lock lock(mutex_);
  // PyTorch's own streams are never destroyed.
  std::erase_if(queues_, [](const auto& queue) { return queue->id != 0 && queue->id % 2 == 0; });
  pool_.fill(0);
  external_.fill(0);
}

c10::StreamId Machine::make_pool_stream(c10::DeviceIndex device) {
  const std::scoped_lock lock(mutex_);
  const c10::StreamId id = 2 * pool_.at(static_cast<size_t>(device))++ + 1;
  for (const auto& queue : queues_) {
    if (queue->device == device && queue->id == id) {
      return id;
    }
  }
  return add(device, id, std::to_string(id)).id;
}

uintptr_t Machine::make_external_stream(c10::DeviceIndex device) {
  const std::scoped_lock lock(mutex_);
  const int number = ++external_.at(static_cast<size_t>(device));
  Queue& made = add(device, 0, c10::str("external", number));
  made.id = reinterpret_cast<c10::StreamId>(&made);
  return handle(made);
}

void Machine::destroy_external_stream(uintptr_t handle) {
  Queue& queue = queue_of_handle(handle, 0);
  const std::scoped_lock lock(mutex_);
  queue.alive = false;
}

Queue& Machine::queue(c10::DeviceIndex device, c10::StreamId id) {
  TORCH_CHECK(device >= 0 && device < kDevices, "fake: invalid device ordinal ", int{device});
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(queues_, [&](const auto& queue) {
    return queue->alive && queue->device == device && queue->id == id;
  });
  if (found != queues_.end()) {
    return **found;
  }
  // A pool stream's handle names the same stream from outside.
  const auto named = std::ranges::find_if(queues_, [&](const auto& queue) {
    return queue->alive && queue->device == device && handle(*queue) == std::bit_cast<uint64_t>(id);
  });
  if (id != 0 && named != queues_.end()) {
    return **named;
  }
  TORCH_CHECK(id == 0, "fake: device ", int{device}, " has no stream ", id);
  return add(device, 0, "0");
}

Queue& Machine::queue_of_handle(uintptr_t handle, c10::DeviceIndex device) {
  if (handle == 0) {
    return queue(device, 0);
  }
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(queues_, [&](const auto& queue) {
    return queue->alive && Machine::handle(*queue) == handle;
  });
  TORCH_CHECK(found != queues_.end(), "fake: invalid resource handle ", handle);
  return **found;
}

void Machine::enqueue(Queue& queue, Work work) {
  const std::scoped_lock lock(mutex_);
  if (queue.capture != nullptr) {
    if (queue.capture->origin != &queue) {
      queue.capture->unjoined.insert(&queue);
    }
    queue.capture->work.push_back(std::move(work));
    return;
  }
  queue.work.push_back(std::move(work));
  ++queue.queued;
}

Mark Machine::record(Queue& queue) {
  const std::scoped_lock lock(mutex_);
  return {.queue = &queue, .position = queue.queued, .capture = queue.capture};
}

void Machine::wait(Queue& later, const Mark& mark) {
  const std::scoped_lock lock(mutex_);
  if (mark.capture != nullptr) {
    TORCH_CHECK(mark.capture->open, "fake: the event was captured into a graph");
    TORCH_CHECK(later.capture == nullptr || later.capture == mark.capture,
                "fake: two captures cannot be merged");
    later.capture = mark.capture;
    mark.capture->unjoined.erase(mark.queue);
    if (mark.capture->origin != &later) {
      mark.capture->unjoined.insert(&later);
    }
    return;
  }
  if (later.capture != nullptr) {
    later.capture->broken = true;
    TORCH_CHECK(false, "fake: ", later.name, " captures and cannot wait for what is not captured");
  }
  if (mark.queue != &later) {
    later.work.emplace_back(
        [this, queue = mark.queue, position = mark.position] { run_until(*queue, position); });
    ++later.queued;
  }
}

bool Machine::is_done(const Mark& mark) {
  const std::scoped_lock lock(mutex_);
  return mark.queue->done >= mark.position;
}

void Machine::require_no_capture(const Queue& queue) {
  const std::scoped_lock lock(mutex_);
  if (queue.capture != nullptr) {
    queue.capture->broken = true;
    TORCH_CHECK(false, "fake: not permitted while ", queue.name, " is capturing");
  }
}

void Machine::synchronize(Queue& queue) {
  require_no_capture(queue);
  synchronize(record(queue));
}

void Machine::synchronize(const Mark& mark) { run_until(*mark.queue, mark.position); }

void Machine::synchronize_device(c10::DeviceIndex device) {
  std::vector<Queue*> queues;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& queue : queues_) {
      if (queue->device == device) {
        queues.push_back(queue.get());
      }
    }
  }
  std::ranges::for_each(queues, [this](Queue* queue) { synchronize(*queue); });
}

void Machine::run_until(Queue& queue, uint64_t position) {
  const std::scoped_lock running(running_);
  for (;;) {
    Work next;
    {
      const std::scoped_lock lock(mutex_);
      if (queue.done >= position) {
        return;
      }
      next = std::move(queue.work.front());
      queue.work.pop_front();
    }
    next();
    const std::scoped_lock lock(mutex_);
    ++queue.done;
  }
}

void Machine::begin_capture(c10::Stream stream) {
  Queue& origin = queue(stream);
  const std::scoped_lock lock(mutex_);
  TORCH_CHECK(origin.capture == nullptr, "fake: ", origin.name, " is capturing already");
  origin.capture = std::make_shared<Capture>(Capture{.origin = &origin});
}

std::vector<Work> Machine::end_capture(c10::Stream stream) {
  const std::shared_ptr<Capture> capture = queue(stream).capture;
  TORCH_CHECK(capture != nullptr && capture->origin == &queue(stream),
              "fake: no capture began on this stream");
  const std::scoped_lock lock(mutex_);
  capture->open = false;
  for (const auto& queue : queues_) {
    if (queue->capture == capture) {
      queue->capture = nullptr;
    }
  }
  TORCH_CHECK(!capture->broken, "fake: the capture was broken");
  TORCH_CHECK(capture->unjoined.empty(), "fake: the capture has streams that were not joined back");
  return std::move(capture->work);
}

bool Machine::is_capturing(c10::Stream stream) {
  const Queue& asked = queue(stream);
  const std::scoped_lock lock(mutex_);
  return asked.capture != nullptr;
}

}  // namespace ortdl::test::fake
