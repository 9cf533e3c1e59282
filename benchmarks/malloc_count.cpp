// Preloaded into a process: counts the blocks that it asks malloc and its like for, and their
// bytes.

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

extern "C" {
// glibc's own, under the names that it keeps for those who stand before it.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
}

namespace {

std::atomic<int64_t> calls{0};
std::atomic<int64_t> live{0};
std::atomic<int64_t> most{0};
std::atomic<int64_t> start{0};

void* counted(void* block) noexcept {
  const auto size = static_cast<int64_t>(malloc_usable_size(block));
  const int64_t now = live.fetch_add(size, std::memory_order_relaxed) + size;
  calls.fetch_add(1, std::memory_order_relaxed);
  int64_t seen = most.load(std::memory_order_relaxed);
  while (seen < now && !most.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  return block;
}

void uncount(void* block) noexcept {
  live.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* malloc(size_t size) { return counted(__libc_malloc(size)); }

void* calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size)); }

void* realloc(void* block, size_t size) {
  uncount(block);
  return counted(__libc_realloc(block, size));
}

void* memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

void free(void* block) {
  uncount(block);
  __libc_free(block);
}

// How many blocks were asked for since the process began.
int64_t ortdl_malloc_calls() { return calls.load(); }

// From here on the most bytes at once are noted.
void ortdl_malloc_mark() {
  start = live.load();
  most = start.load();
}

// The most bytes at once since the mark, beyond those that were there at the mark.
int64_t ortdl_malloc_peak() { return most.load() - start.load(); }

}  // extern "C"
