#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accelerator.h"

namespace ortdl::test::fake {
namespace {

constexpr int kNeverWritten = 0xA5;
constexpr std::align_val_t kAlignment{64};

struct AlignedFree {
  void operator()(std::byte* memory) const noexcept { ::operator delete(memory, kAlignment); }
};

using Memory = std::unique_ptr<std::byte, AlignedFree>;

struct Block {
  Memory memory;
  size_t size;
  Queue* home;
  bool used = true;
  std::set<Queue*> readers{};  // while it is used
  std::vector<Mark> unread{};  // after that: what the readers may still do
};

std::string text(const Block& block) {
  return block.home->name + ", " + std::to_string(block.size) + " bytes";
}

// All blocks that were ever allocated and not given back.
class Blocks {
 public:
  void* allocate(size_t size, Queue& home) {
    void* memory = take(size, home);
    machine().enqueue(home, [memory, size] { std::memset(memory, kNeverWritten, size); });
    return memory;
  }

  void free(void* memory) {
    const std::scoped_lock lock(mutex_);
    Block& block = *find(memory);
    for (Queue* reader : block.readers) {
      block.unread.push_back(machine().record(*reader));
    }
    block.readers.clear();
    block.used = false;
    trace().note("free", text(block));
  }

  void add_reader(const void* memory, Queue& reader) {
    const std::scoped_lock lock(mutex_);
    if (Block* block = find(memory); block != nullptr && block->home != &reader) {
      block->readers.insert(&reader);
    }
  }

  c10::DeviceIndex device_of(const void* pointer) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(blocks_, [pointer](const auto& block) {
      const std::byte* first = block->memory.get();
      return pointer >= first && pointer < first + block->size;
    });
    return found == blocks_.end() ? c10::DeviceIndex{-1} : (*found)->home->device;
  }

  int64_t used() {
    const std::scoped_lock lock(mutex_);
    return std::ranges::count_if(blocks_, [](const auto& block) { return block->used; });
  }

  void release_free() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(blocks_, [](const auto& block) { return !block->used; });
  }

 private:
  void* take(size_t size, Queue& home) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(blocks_, [&](const auto& block) {
      return !block->used && block->size == size && block->home == &home &&
             std::ranges::all_of(block->unread,
                                 [](const Mark& mark) { return machine().is_done(mark); });
    });
    if (found != blocks_.end()) {
      (*found)->used = true;
      (*found)->unread.clear();
      return (*found)->memory.get();
    }
    Memory made(static_cast<std::byte*>(::operator new(size, kAlignment)));
    void* memory = made.get();
    blocks_.push_back(
        std::make_unique<Block>(Block{.memory = std::move(made), .size = size, .home = &home}));
    return memory;
  }

  Block* find(const void* memory) {
    const auto found = std::ranges::find_if(
        blocks_, [memory](const auto& block) { return block->memory.get() == memory; });
    return found == blocks_.end() ? nullptr : found->get();
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

Blocks& blocks() {
  static auto& blocks = *new Blocks;
  return blocks;
}

void free_block(void* memory) {
  if (memory != nullptr) {
    blocks().free(memory);
  }
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    Queue& home = current_queue(current().device);
    const c10::Device device(device_type(), home.device);
    trace().call("allocate", home.name + ", " + std::to_string(size) + " bytes");
    if (size == 0) {
      return {nullptr, nullptr, &free_block, device};
    }
    void* memory = blocks().allocate(size, home);
    return {memory, memory, &free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
};

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    void* memory = ::operator new(size, kAlignment);
    const std::scoped_lock lock(mutex_);
    memory_.insert(memory);
    return {memory, memory, &free_memory, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
  bool owns(const void* memory) {
    const std::scoped_lock lock(mutex_);
    return memory_.contains(const_cast<void*>(memory));
  }

 private:
  static void free_memory(void* memory) {
    auto& self = static_cast<PinnedAllocator&>(pinned_allocator());
    const std::scoped_lock lock(self.mutex_);
    self.memory_.erase(memory);
    ::operator delete(memory, kAlignment);
  }

  std::mutex mutex_;
  std::set<void*> memory_;
};

}  // namespace

c10::Allocator& device_allocator() {
  static auto& allocator = *new DeviceAllocator;
  return allocator;
}

c10::Allocator& pinned_allocator() {
  static auto& allocator = *new PinnedAllocator;
  return allocator;
}

void record_use_of(const c10::DataPtr& memory, Queue& queue) {
  if (memory.get_deleter() == &free_block) {
    blocks().add_reader(memory.get(), queue);
  }
}

int64_t live_blocks() { return blocks().used(); }

void release_free_blocks() { blocks().release_free(); }

c10::DeviceIndex device_of_block(const void* pointer) { return blocks().device_of(pointer); }

bool is_pinned(const void* pointer) {
  return static_cast<PinnedAllocator&>(pinned_allocator()).owns(pointer);
}

}  // namespace ortdl::test::fake
