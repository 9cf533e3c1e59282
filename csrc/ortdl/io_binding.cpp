#include <ortdl/io_binding.h>

namespace ortdl {

IoBindingHandle make_io_binding(OrtSession* session) {
  OrtIoBinding* created = nullptr;
  check_status(api().CreateIoBinding(session, &created));
  return IoBindingHandle(created);
}

std::vector<ValueHandle> bound_outputs(const OrtIoBinding* binding) {
  OrtAllocator* allocator = nullptr;
  check_status(api().GetAllocatorWithDefaultOptions(&allocator));
  ::OrtValue** values = nullptr;
  size_t count = 0;
  check_status(api().GetBoundOutputValues(binding, allocator, &values, &count));
  const auto free = [allocator](::OrtValue** array) noexcept {
    allocator->Free(allocator, static_cast<void*>(array));
  };
  const std::unique_ptr<::OrtValue*, decltype(free)> array(values, free);
  return {values, values + count};
}

}  // namespace ortdl
