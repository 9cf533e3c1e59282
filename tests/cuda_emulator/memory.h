#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

/// \file
/// Device memory and pinned memory: both are host memory that the emulator knows.
namespace emulator {

/// What is known of an address. Memory that is in no block is the program's own, pageable.
struct Block {
  std::byte* start;
  std::size_t size;
  int device;
  cudaMemoryType type;
};

/// The block that holds `address`, or null.
[[nodiscard]] const Block* find_block(const void* address);

[[nodiscard]] bool is_pageable(const void* address);

/// The bytes that the program has allocated on `device`.
[[nodiscard]] std::size_t memory_in_use(int device);

}  // namespace emulator
