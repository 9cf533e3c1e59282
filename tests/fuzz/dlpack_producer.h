#pragma once

#include <ortdl/ortdl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "check.h"

/// \file
/// A producer of DLPack structs whose every field the fuzzer's input decides, and what a struct
/// means in arithmetic that cannot overflow.
namespace ortdl::fuzz {

/// Below it no product of what is described overflows 64 bits.
inline constexpr Wide kSmall = Wide{1} << 40;

/// What an input says.
struct Plan {
  bool versioned;
  bool prototype;
  bool round_trip;
  bool null_deleter;
  bool null_shape;
  bool null_strides;
  enum class Data : uint8_t { kBuffer, kNull, kWild } data;
  Copy copy;
  int allocations;  ///< how many succeed
  size_t buffer_size;
  uint64_t data_value;  ///< the place in the buffer, or a wild pointer
  DLPackVersion version;
  uint64_t raw_flags;
  DLTensor raw;  ///< pointers not set
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  static Plan read(Reader& reader);
  [[nodiscard]] uint64_t flags() const noexcept { return versioned ? raw_flags : 0; }
};

/// Owns the struct, its arrays and its memory. Each is an allocation of its own and of just its
/// size, and goes when the deleter is called, so that the sanitizer sees whatever goes astray.
class Producer {
 public:
  explicit Producer(const Plan& plan);
  Producer(const Producer&) = delete;
  Producer(Producer&&) = delete;
  Producer& operator=(const Producer&) = delete;
  Producer& operator=(Producer&&) = delete;
  ~Producer() = default;

  [[nodiscard]] const DLTensor& tensor() const noexcept;
  [[nodiscard]] bool has_deleter() const noexcept { return !plan_.null_deleter; }
  [[nodiscard]] int released() const noexcept { return released_; }
  [[nodiscard]] bool is_unchanged() const;
  /// Whether `size` bytes from `address` on are this producer's.
  [[nodiscard]] bool owns(Wide address, Wide size) const noexcept;
  /// Gives the struct to a consumer.
  [[nodiscard]] ManagedTensor hand_over() noexcept;
  /// Releases the struct as a producer does that nobody took it from.
  void give_back() noexcept { static_cast<void>(hand_over()); }
  void release() noexcept;

 private:
  const Plan& plan_;
  template <typename Managed>
  void fill(size_t size);
  template <typename Managed>
  [[nodiscard]] Managed* managed() const noexcept;

  std::vector<std::byte> before_;
  std::unique_ptr<std::byte[]> managed_;
  std::unique_ptr<std::byte[]> buffer_;
  std::unique_ptr<int64_t[]> shape_;
  std::unique_ptr<int64_t[]> strides_;
  int released_ = 0;
};

/// What a struct means.
struct Described {
  const ElementType* type = nullptr;
  std::vector<int64_t> sizes;  ///< logical
  Wide count = 0;              ///< logical elements
  Wide padded_count = 0;       ///< the same if no size were zero
  Wide bytes = 0;
  bool possible = false;   ///< some memory could be so
  bool readable = false;   ///< and this producer's is
  bool shareable = false;  ///< without a copy
  bool plain = false;      ///< nothing is a reason to refuse it
};

[[nodiscard]] Described describe(const Producer& producer, const Plan& plan);

/// The bytes of the elements in C order, gathered one by one.
[[nodiscard]] std::vector<std::byte> gather(const DLTensor& tensor, const Described& described);

/// Where the element with all indices zero is.
[[nodiscard]] std::byte* address_of_first(const DLTensor& tensor) noexcept;

}  // namespace ortdl::fuzz
