// The input decides every field of a DLPack struct, the copy policy and which
// allocation fails. Whatever comes of the import is compared with what `describe` works out in
// arithmetic that cannot overflow.

#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlpack_producer.h"
#include "target.h"

namespace ortdl::fuzz {
namespace {

// Lets torch have little memory, and none from the allocation on that the input names.
class ScarceAllocator final : public c10::Allocator {
 public:
  void begin(int allocations) noexcept {
    left_ = allocations;
    refused_ = false;
  }
  [[nodiscard]] bool refused() const noexcept { return refused_; }

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes > kMostBytes || left_ == 0) {
      refused_ = true;
      throw std::bad_alloc();
    }
    --left_;
    void* memory = bytes == 0 ? nullptr : std::malloc(bytes);
    return {memory, memory, &std::free, at::kCPU};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  static constexpr size_t kMostBytes = 64 << 10;

 private:
  int left_ = 0;
  bool refused_ = false;
};

ScarceAllocator allocator;

// Runs `make`; null if it failed for want of memory, which is the only way it may.
template <typename Make>
ValuePtr made_unless_refused(Make&& make) {
  try {
    ValuePtr value = std::forward<Make>(make)();
    require(!allocator.refused(), "a failed allocation is reported");
    return value;
  } catch (const std::exception& error) {
    require(allocator.refused(), "what was accepted is imported", error.what());
    return {};
  }
}

void check_description(const Value& value, const Described& described) {
  require(value.is_tensor() && &value.type() == described.type, "the element type is kept");
  require(value.sizes() == at::IntArrayRef(described.sizes), "the shape is kept");
  require(value.nbytes() == static_cast<size_t>(described.bytes), "the size in bytes is right");
  require(value.device() == at::kCPU, "the value is on the CPU");
}

void check_elements(const Value& value, const std::vector<std::byte>& expected) {
  require(expected.empty() || std::memcmp(value.data(), expected.data(), expected.size()) == 0,
          "the elements are those that the struct describes");
}

// Exports the value, drops it in favour of the struct and imports that again.
template <typename Managed, typename Export>
ValuePtr round_trip(ValuePtr value, const std::vector<std::byte>& expected, Export&& export_value) {
  const Described described = {.type = &value->type(),
                               .sizes = value->sizes().vec(),
                               .bytes = static_cast<Wide>(value->nbytes())};
  void* data = value->data();
  const bool read_only = value->read_only();
  Managed* exported = nullptr;
  const bool exports = accepts([&] { exported = export_value(value); });
  require(exports == (!read_only || std::is_same_v<Managed, DLManagedTensorVersioned>),
          "a value is exported unless the struct cannot say that it is read-only");
  if (!exports) {
    return value;
  }
  value.reset();
  ManagedTensor managed(exported);
  require(managed.tensor().data == data, "an export shares the memory");
  require(((managed.flags() & kDlpackReadOnly) != 0) == read_only, "an export says read-only");
  require(accepts([&] { validate_dlpack(managed.tensor(), managed.flags(), Copy::kNever); }),
          "an export can be imported");
  ValuePtr again = from_dlpack(std::move(managed), Copy::kNever);
  require(again->data() == data && again->read_only() == read_only, "an import shares the memory");
  check_description(*again, described);
  check_elements(*again, expected);
  return again;
}

ValuePtr exported_and_back(ValuePtr value, const std::vector<std::byte>& expected, bool versioned) {
  if (versioned) {
    return round_trip<DLManagedTensorVersioned>(std::move(value), expected, [](ValuePtr given) {
      return to_dlpack_versioned(std::move(given));
    });
  }
  return round_trip<DLManagedTensor>(std::move(value), expected, [](ValuePtr given) {
    return to_dlpack_legacy(std::move(given));
  });
}

void import_accepted(Producer& producer, const Plan& plan, const Described& described) {
  // A copy that the producer made is as good, unless nobody may write to it.
  const bool copy_wanted = plan.copy == Copy::kAlways &&
                           (plan.flags() & (kDlpackCopied | kDlpackReadOnly)) != kDlpackCopied;
  const bool shared = described.shareable && !copy_wanted;
  if (!shared && !described.readable) {
    producer.give_back();  // a copy would read what isn't there
    return;
  }
  std::vector<std::byte> expected;
  if (described.readable && described.bytes <= static_cast<Wide>(allocator.kMostBytes)) {
    expected = gather(producer.tensor(), described);
  }
  void* first = described.count == 0 ? nullptr : address_of_first(producer.tensor());
  ValuePtr value =
      made_unless_refused([&] { return from_dlpack(producer.hand_over(), plan.copy); });
  require(!producer.has_deleter() || producer.released() == (value && shared ? 0 : 1),
          "the struct is given back at once unless its memory is shared");
  if (!value) {
    return;
  }
  check_description(*value, described);
  require((value->data() == first) == (shared || described.count == 0),
          "memory is shared if and only if the policy and the layout let it");
  require(value->read_only() == (shared && (plan.flags() & kDlpackReadOnly) != 0),
          "a value is read-only if and only if it shares read-only memory");
  check_elements(*value, expected);
  if (plan.round_trip && described.padded_count <= kSmall) {
    value = exported_and_back(std::move(value), expected, plan.versioned);
    require(!producer.has_deleter() || producer.released() == (shared ? 0 : 1),
            "an export keeps the struct alive");
  }
}

void import(Producer& producer, const Plan& plan) {
  const Described described = describe(producer, plan);
  const bool accepted =
      accepts([&] { validate_dlpack(producer.tensor(), plan.flags(), plan.copy); });
  require(producer.is_unchanged(), "validation changes nothing");
  require(producer.released() == 0, "validation releases nothing");
  require(!accepted || described.possible, "what makes no sense is refused");
  require(accepted || !described.plain, "what makes sense and is there is accepted");
  if (accepted) {
    import_accepted(producer, plan, described);
  } else {
    check_nothing_lives();
    producer.give_back();
  }
}

void make_like(Producer& producer, const Plan& plan) {
  const Described described = describe(producer, plan);
  ValuePtr value;
  try {
    accepts([&] { value = make_uninitialized(producer.tensor()); });
  } catch (const std::bad_alloc&) {
    require(allocator.refused(), "a value with memory of its own is made");
  }
  require(producer.is_unchanged() && producer.released() == 0, "a prototype is only read");
  if (value) {
    check_description(*value, described);
    require(!value->read_only(), "memory of one's own may be written to");
    if (described.bytes > 0) {
      std::memset(value->data(), 1, static_cast<size_t>(described.bytes));
    }
  }
  producer.give_back();
}

void import_dlpack(Input input) {
  Reader reader(input);
  const Plan plan = Plan::read(reader);
  Producer producer(plan);
  allocator.begin(plan.allocations);
  if (plan.versioned && plan.version.major > DLPACK_MAJOR_VERSION) {
    // What a consumer does with a struct of a version that it does not know.
    producer.give_back();
  } else if (plan.prototype) {
    make_like(producer, plan);
  } else {
    import(producer, plan);
  }
  require(!producer.has_deleter() || producer.released() == 1, "the deleter is called once");
  check_nothing_lives();
}

void begin() { c10::SetCPUAllocator(&allocator, /*priority=*/255); }

}  // namespace

const Target kDlpackImport{
    .name = "dlpack_import", .begin = begin, .run = import_dlpack, .is_message = false};

}  // namespace ortdl::fuzz
