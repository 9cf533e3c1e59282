#include "state_plan.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ortdl/digest.h>

#include <algorithm>
#include <array>
#include <set>

#include "onnx_bytes.h"

namespace ortdl::fuzz {
namespace {

using c10::IValue;
using Pair = std::pair<const char*, const char*>;

constexpr std::array kProperties{
    Pair{"graph_optimization_level", "0"}, Pair{"graph_optimization_level", "99"},
    Pair{"execution_mode", "0"},           Pair{"enable_mem_pattern", "0"},
    Pair{"enable_cpu_mem_arena", "0"},     Pair{"use_deterministic_compute", "1"},
    Pair{"log_verbosity_level", "0"},      Pair{"logid", "name"},
    Pair{"use_per_session_threads", "1"}};
constexpr std::array kEntries{Pair{"session.disable_prepacking", "1"},
                              Pair{"session.intra_op.allow_spinning", "0"},
                              Pair{"ortdl.move_inputs", "1"}, Pair{"my.own", ""}};
constexpr std::array kHostileKeys{"session.model_external_initializers_file_folder_path",
                                  "optimized_model_filepath",
                                  "session.load_model_format",
                                  "session.use_env_allocators",
                                  "ep.context_enable",
                                  "user_compute_stream",
                                  "library",
                                  "execution_mode"};

// A storage of `size` bytes that says that it has more.
at::Tensor lying(const std::string& content) {
  constexpr int64_t more = 4096;
  const auto size = static_cast<int64_t>(content.size());
  at::Tensor bytes = at::empty({size}, at::kByte);
  bytes.storage().unsafeGetStorageImpl()->set_nbytes(static_cast<size_t>(size + more));
  return bytes.as_strided({size + more}, {1}, 0);
}

at::Tensor flat(const std::string& content) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(content.size())}, at::kByte);
  std::ranges::copy(content, static_cast<char*>(bytes.mutable_data_ptr()));
  return bytes;
}

at::Tensor nothing_of(int64_t size) {
  c10::Storage storage(c10::Storage::use_byte_size_t{}, static_cast<size_t>(size),
                       at::DataPtr(nullptr, at::kCPU), nullptr, /*resizable=*/false);
  return at::empty({0}, at::kByte).set_(std::move(storage), 0, {size}, {1});
}

class Maker {
 public:
  Maker(Reader& reader, const Folder& folder) : reader_(reader), folder_(folder) {}

  StatePlan make() {
    const uint8_t choice = reader_.byte();
    plan_.by_reference = choice % 4 == 3;
    kind_ = choice / 4 % 3;
    if (choice >= 252) {
      unsound();
      plan_.damaged = true;
      plan_.state = anything(0);
      return std::move(plan_);
    }
    std::vector<IValue> parts{version(),         files(),     options(kProperties),
                              options(kEntries), providers(), initializers()};
    if (is_rare()) {
      unsound();
      plan_.damaged = true;
      parts.resize(reader_.byte() % 6);
    }
    plan_.state = c10::ivalue::Tuple::create(std::move(parts));
    plan_.damaged &= !replaced_;  // what replaced the damage may be sound
    return std::move(plan_);
  }

 private:
  void unsound() { plan_.sound = false; }
  bool is_rare() { return reader_.byte() >= 240; }

  // A value of any type, in the place of another.
  IValue anything(int depth) {
    switch (reader_.byte() % (depth < 3 ? 12 : 7)) {
      case 0:
        return {};
      case 1:
        return reader_.number();
      case 2:
        return 1.5;
      case 3:
        return true;
      case 4:
        return reader_.text();
      case 5:
        return tensor(reader_.text()).first;
      case 6:
        return c10::List<int64_t>({reader_.number()});
      case 7: {
        c10::impl::GenericList list(c10::AnyType::get());
        list.push_back(anything(depth + 1));
        return list;
      }
      case 8: {
        c10::impl::GenericDict dict(c10::StringType::get(), c10::StringType::get());
        dict.insert(reader_.text(), anything(depth + 1));
        return dict;
      }
      case 9:
        return c10::ivalue::Tuple::create({anything(depth + 1), anything(depth + 1)});
      case 10:
        return c10::Dict<std::string, int64_t>();
      default:
        return c10::ivalue::Tuple::create({reader_.text(), reader_.text(), anything(depth + 1)});
    }
  }

  // `proper`, or seldom anything.
  IValue mostly(IValue proper) {
    if (!is_rare()) {
      return proper;
    }
    unsound();
    replaced_ = true;
    return anything(0);
  }

  // A tensor over `content`, or one that cannot be read; and whether it can.
  std::pair<at::Tensor, bool> tensor(const std::string& content) {
    const uint8_t kind = reader_.byte();
    const auto size = static_cast<int64_t>(content.size());
    switch (kind < 160 ? 0 : kind % 12) {
      case 1: {
        const at::Tensor padded = flat("abc" + content + "d");
        return {padded.narrow(0, 3, size), true};
      }
      case 2:
        return {flat(content + content).as_strided({size}, {2}, 0), size < 2};
      case 3:
        return {at::zeros({size}), false};
      case 4:
        return {at::Tensor(), false};
      case 5:
        return {at::empty({size}, at::TensorOptions(at::kByte).device(at::kMeta)), false};
      case 6:
        return {flat(content).to_sparse(), false};
      case 7: {
        at::Tensor bytes = flat(content);
        at::native::resize_bytes_cpu(bytes.storage().unsafeGetStorageImpl(), content.size() / 2);
        return {bytes, size == 0};
      }
      case 8:
        return {lying(content), false};
      case 9:
        return {flat(content + content).view({2, size}), false};
      case 10:
        return {nothing_of(size), size == 0};
      case 11:
        shared_ = flat(content);
        return {shared_, true};
      default:
        return {flat(content), true};
    }
  }

  IValue version() {
    if (!is_rare()) {
      return SessionConfig::kStateVersion;
    }
    const int64_t other = reader_.number();
    unsound();
    plan_.damaged |= other != SessionConfig::kStateVersion;
    return other;
  }

  std::string content_of_model() {
    const Models& models = Models::get();
    plan_.model = std::array{&models.relu, &models.weighted, &models.external}.at(kind_);
    if (!is_rare()) {
      return *plan_.model;
    }
    unsound();
    return reader_.text();
  }

  IValue embedded_file(const std::string& name, const std::string& content) {
    auto [bytes, readable] = tensor(content);
    plan_.sound &= readable;
    plan_.damaged |= !readable;
    plan_.files.emplace_back(name, content);
    std::string digest;
    if (is_rare()) {
      digest = reader_.text();
      unsound();
    }
    return mostly(c10::ivalue::Tuple::create({mostly(name), mostly(digest), mostly(bytes)}));
  }

  IValue referred_file(const std::string& path) {
    std::string digest = file_digest(path);
    std::string name = path;
    if (is_rare()) {
      unsound();
      name = folder_.path() + "/" + reader_.text();
    }
    if (is_rare()) {
      unsound();
      digest = reader_.text();
      // Other files may be none that the model names, and then they do not count.
      plan_.damaged |= path.ends_with(".onnx") && name == path && digest != file_digest(path);
    }
    return mostly(c10::ivalue::Tuple::create(
        {mostly(name), mostly(digest), mostly(at::empty({0}, at::kByte))}));
  }

  IValue files() {
    c10::impl::GenericList list(c10::TupleType::create(
        {c10::StringType::get(), c10::StringType::get(), c10::TensorType::get()}));
    if (plan_.by_reference) {
      list.push_back(referred_file(folder_.write("model.onnx", content_of_model())));
      if (kind_ == 2) {
        list.push_back(referred_file(folder_.path() + "/w.bin"));
      }
    } else {
      list.push_back(embedded_file("", content_of_model()));
      if (kind_ == 2) {
        list.push_back(embedded_file("w.bin", std::string("\0\0\0\x40\0\0\0\x40", 8)));
      }
    }
    while (is_rare()) {
      unsound();
      if (plan_.by_reference) {
        list.push_back(referred_file(folder_.path() + "/w.bin"));
      } else {
        const std::string name = reader_.text();
        list.push_back(embedded_file(name, reader_.text()));
      }
    }
    if (is_rare()) {
      unsound();
      plan_.damaged = true;
      list.clear();
    }
    return mostly(list);
  }

  template <size_t N>
  IValue options(const std::array<Pair, N>& known) {
    c10::impl::GenericDict dict(c10::StringType::get(), c10::StringType::get());
    const uint8_t count = reader_.byte() % 4;
    for (uint8_t i = 0; i < count; ++i) {
      const auto& [key, value] = known.at(reader_.byte() % N);
      dict.insert_or_assign(key, mostly(std::string(value)));
    }
    while (is_rare()) {
      unsound();
      const uint8_t choice = reader_.byte();
      const std::string key =
          choice < 128 ? kHostileKeys.at(choice % kHostileKeys.size()) : reader_.text();
      dict.insert_or_assign(key, mostly(reader_.text()));
    }
    if constexpr (N == kProperties.size()) {
      // Threads and ONNX Runtime's log would take the time.
      dict.insert_or_assign("intra_op_num_threads", std::string("1"));
      dict.insert_or_assign("inter_op_num_threads", std::string("1"));
      dict.insert_or_assign("log_severity_level", std::string("4"));
    }
    return mostly(dict);
  }

  IValue providers() {
    const auto options_type = c10::DictType::create(c10::StringType::get(), c10::StringType::get());
    c10::impl::GenericList list(c10::TupleType::create({c10::StringType::get(), options_type}));
    const uint8_t count = reader_.byte() % 2;
    for (uint8_t i = 0; i < count; ++i) {
      list.push_back(c10::ivalue::Tuple::create({std::string(kCpuProvider), StringDict()}));
    }
    while (is_rare()) {
      unsound();
      const bool named = reader_.byte() % 2 == 0;
      list.push_back(mostly(c10::ivalue::Tuple::create(
          {mostly(named ? std::string(kCpuProvider) : reader_.text()), options(kEntries)})));
    }
    return mostly(list);
  }

  IValue initializers() {
    c10::impl::GenericList list(
        c10::TupleType::create({c10::StringType::get(), c10::IntType::get(),
                                c10::ListType::ofInts(), c10::TensorType::get()}));
    const bool given = kind_ == 1 && reader_.byte() % 2 == 1;
    if (given) {
      plan_.weight = std::string("\0\0\x40\x40\0\0\x80\x40", 8);  // (3, 4)
      auto [bytes, readable] = tensor(*plan_.weight);
      plan_.sound &= readable;
      plan_.damaged |= !readable;
      list.push_back(initializer("w", 1, {2}, bytes));
    }
    while (is_rare()) {
      unsound();
      const std::string name = reader_.text();
      const int64_t type = reader_.number();
      c10::List<int64_t> sizes;
      for (int i = reader_.byte() % 5; i > 0; --i) {
        sizes.push_back(reader_.number());
      }
      list.push_back(initializer(name, type, sizes, tensor(reader_.text()).first));
    }
    return mostly(list);
  }

  IValue initializer(const std::string& name, int64_t type, const c10::List<int64_t>& sizes,
                     const at::Tensor& bytes) {
    return mostly(
        c10::ivalue::Tuple::create({mostly(name), mostly(type), mostly(sizes), mostly(bytes)}));
  }

  Reader& reader_;
  const Folder& folder_;
  StatePlan plan_;
  size_t kind_ = 0;
  bool replaced_ = false;
  at::Tensor shared_;
};

}  // namespace

const Models& Models::get() {
  namespace onnx = test::onnx;
  static const Models models{
      .relu = bytes_of(onnx::unary("Relu")),
      .weighted = bytes_of(onnx::model({{"Add", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}},
                                       {{.name = "w", .value = at::ones({2})}})),
      .external = bytes_of(onnx::external_weight("w.bin"))};
  return models;
}

std::string bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

StatePlan StatePlan::read(Reader& reader, const Folder& folder) {
  return Maker(reader, folder).make();
}

}  // namespace ortdl::fuzz
