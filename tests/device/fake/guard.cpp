#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <utility>

#include "accelerator.h"

namespace ortdl::test::fake {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

struct Event {
  explicit Event(Mark recorded) : mark(std::move(recorded)) { ++live_events(); }
  Event(const Event&) = delete;
  Event(Event&&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;
  ~Event() { --live_events(); }

  Mark mark;
};

std::string text(DeviceIndex index) { return std::to_string(int{index}); }

std::string name(Stream stream) { return machine().queue(stream).name; }

DeviceIndex checked(Device device) {
  TORCH_CHECK(device.index() >= 0 && device.index() < kDevices, "fake: invalid device ordinal ",
              int{device.index()});
  return device.index();
}

DeviceIndex or_current(Device device) {
  return device.index() < 0 ? current().device : checked(device);
}

// What CUDA's guard does around events: the device is set back only where nothing fails.
template <typename Call>
void on_device_of(Stream stream, Call&& call) {
  const DeviceIndex before = std::exchange(current().device, stream.device_index());
  std::forward<Call>(call)();
  current().device = before;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  explicit Guard(at::DeviceType type) : type_(type) {}

  at::DeviceType type() const override { return type_; }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }

  Device getDevice() const override {
    trace().query("getDevice");
    return {type_, current().device};
  }
  void setDevice(Device device) const override {
    trace().call("setDevice", text(device.index()));
    current().device = checked(device);
  }
  Device exchangeDevice(Device device) const override {
    trace().call("exchangeDevice", text(device.index()));
    return {type_, std::exchange(current().device, checked(device))};
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    trace().note("uncheckedSetDevice", text(device.index()));
    current().device = device.index();
  }

  Stream getStream(Device device) const override {
    trace().query("getStream");
    const DeviceIndex index = or_current(device);
    return Stream(Stream::UNSAFE, Device(type_, index),
                  current().streams.at(static_cast<size_t>(index)));
  }
  Stream getDefaultStream(Device device) const override {
    trace().query("getDefaultStream");
    return Stream(Stream::DEFAULT, Device(type_, or_current(device)));
  }
  Stream getStreamFromGlobalPool(Device device, bool /*high_priority*/) const override {
    trace().query("getStreamFromGlobalPool");
    const DeviceIndex index = or_current(device);
    return Stream(Stream::UNSAFE, Device(type_, index), machine().make_pool_stream(index));
  }
  Stream getNewStream(Device device, int /*priority*/) const override {
    return getStreamFromGlobalPool(device, false);
  }
  Stream exchangeStream(Stream stream) const override {
    trace().call("exchangeStream", name(stream));
    auto& slot = current().streams.at(static_cast<size_t>(stream.device_index()));
    return Stream(Stream::UNSAFE, stream.device(), std::exchange(slot, stream.id()));
  }
  void* getStreamNativeHandle(const Stream stream) const override {
    trace().query("getStreamNativeHandle");
    return reinterpret_cast<void*>(Machine::handle(machine().queue(stream)));
  }
  bool queryStream(const Stream& stream) const override {
    trace().query("queryStream");
    return machine().is_done(machine().record(machine().queue(stream)));
  }
  bool isStreamCapturing(const Stream& stream) const override {
    trace().query("isStreamCapturing");
    return machine().is_capturing(stream);
  }
  void synchronizeStream(const Stream& stream) const override {
    trace().call("synchronizeStream", name(stream));
    machine().synchronize(machine().queue(stream));
  }
  void synchronizeDevice(const DeviceIndex device) const override {
    trace().call("synchronizeDevice", text(device));
    machine().synchronize_device(device);
  }

  void record(void** event, const Stream& stream, const DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    on_device_of(stream, [&] {
      Queue& queue = machine().queue(stream);
      trace().call("record", queue.name);
      if (*event == nullptr) {
        *event = new Event(machine().record(queue));  // PyTorch calls destroyEvent
      } else {
        static_cast<Event*>(*event)->mark = machine().record(queue);
      }
    });
  }
  void block(void* event, const Stream& stream) const override {
    on_device_of(stream, [&] {
      const Mark& mark = static_cast<Event*>(event)->mark;
      trace().call("block", mark.queue->name + " -> " + name(stream));
      machine().wait(machine().queue(stream), mark);
    });
  }
  bool queryEvent(void* event) const override {
    trace().query("queryEvent");
    return machine().is_done(static_cast<Event*>(event)->mark);
  }
  void synchronizeEvent(void* event) const override {
    trace().call("synchronizeEvent");
    machine().synchronize(static_cast<Event*>(event)->mark);
  }
  void destroyEvent(void* event, const DeviceIndex /*device*/) const noexcept override {
    trace().note("destroyEvent");
    delete static_cast<Event*>(event);
  }

  void recordDataPtrOnStream(const c10::DataPtr& memory, const Stream& stream) const override {
    Queue& queue = machine().queue(stream);
    trace().call("recordDataPtrOnStream", queue.name);
    record_use_of(memory, queue);
  }

 private:
  at::DeviceType type_;
};

}  // namespace

void detail::register_guard(at::DeviceType type) {
  static const Guard guard(type);
  static const c10::impl::DeviceGuardImplRegistrar registered(type, &guard);
}

}  // namespace ortdl::test::fake
