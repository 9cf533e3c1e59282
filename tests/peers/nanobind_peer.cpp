// nanobind as a peer: functions that produce arrays, and classes that keep what they took.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig>;

// An array over `memory` from its byte `offset` on, which keeps the owner of `memory`.
template <typename Array>
Array make(const Bytes& memory, uint8_t code, uint8_t bits, const std::vector<size_t>& shape,
           uint64_t offset) {
  const nb::object owner = nb::cast(memory);
  return Array(memory.data(), shape.size(), shape.data(), owner, nullptr, {code, bits, 1},
               nb::device::cpu::value, 0, 'C', offset);
}

// An array of another library's, kept alive.
template <typename Array>
class Taken {
 public:
  explicit Taken(Array array) : array_(std::move(array)) {}

  [[nodiscard]] uintptr_t pointer() const { return reinterpret_cast<uintptr_t>(array_.data()); }
  [[nodiscard]] nb::tuple dtype() const {
    return nb::make_tuple(array_.dtype().code, array_.dtype().bits);
  }
  [[nodiscard]] std::vector<int64_t> shape() const {
    return {array_.shape_ptr(), array_.shape_ptr() + array_.ndim()};
  }

 private:
  Array array_;
};

template <typename Array>
void bind_taken(nb::module_& module, const char* name) {
  nb::class_<Taken<Array>>(module, name)
      .def(nb::init<Array>(), "array"_a.noconvert())
      .def_prop_ro("pointer", &Taken<Array>::pointer)
      .def_prop_ro("dtype", &Taken<Array>::dtype)
      .def_prop_ro("shape", &Taken<Array>::shape);
}

}  // namespace

NB_MODULE(nanobind_peer, module) {
  module.def("make", &make<nb::ndarray<nb::array_api>>, "memory"_a, "code"_a, "bits"_a, "shape"_a,
             "offset"_a = 0);
  module.def("make_read_only", &make<nb::ndarray<nb::array_api, nb::ro>>, "memory"_a, "code"_a,
             "bits"_a, "shape"_a, "offset"_a = 0);
  bind_taken<nb::ndarray<>>(module, "Taken");
  bind_taken<nb::ndarray<nb::ro>>(module, "TakenReadOnly");
}
