// The input is a model, read from memory and from a file, and held against a second reader. Nothing
// is loaded: ONNX Runtime is asked only to take initializers.

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ortdl/initializers.h>
#include <ortdl/model_files.h>
#include <ortdl/session_config.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "folder.h"
#include "model_reference.h"
#include "shapes_check.h"
#include "target.h"

namespace ortdl::fuzz {
namespace {

namespace fs = std::filesystem;

ModelProto read(std::string_view model, bool& accepted) {
  // A copy of just that size, so that the sanitizer sees what is read behind it.
  const std::vector<char> copy(model.begin(), model.end());
  ModelProto proto;
  accepted = accepts([&] { proto = read_model_proto(std::as_bytes(std::span(copy))); });
  return proto;
}

void check_files(const std::string& path, const ModelProto* known) {
  const std::vector<ModelFile> files = model_files(path, /*digests=*/false);
  require(!files.empty() && files.front().stamp.has_value(), "the model's own file comes first");
  std::set<std::string> names;
  for (const ModelFile& file : std::span(files).subspan(1)) {
    names.insert(file.name);
  }
  require(names == (known == nullptr ? std::set<std::string>() : known->external_locations),
          "every file that the model names is looked at");
  std::vector<ModelFile> inside;
  if (!succeeds([&] { inside = model_files(path, /*digests=*/true); })) {
    return;
  }
  const fs::path folder = fs::canonical(fs::path(path).parent_path());
  for (const ModelFile& file : inside) {
    require(file.digest.empty() != file.stamp.has_value(), "a file that is there has a digest");
    if (file.stamp.has_value()) {
      const std::string real = fs::canonical(file.path.c_str()).string();
      require(real.starts_with(folder.string() + "/"), "only files beside the model are read",
              real.c_str());
    }
  }
}

// A value that the model could have for the initializer, unless it is too big to make.
ValuePtr value_for(const Initializer& initializer) {
  Wide count = 1;
  for (const int64_t size : initializer.dims) {
    if (size < 0 || size > 1000) {
      return {};
    }
    count *= std::max<int64_t>(size, 1);
    if (count > 100'000) {
      return {};
    }
  }
  for (const ElementType& type : element_types()) {
    if (type.onnx == initializer.data_type) {
      const auto elements =
          std::ranges::count(initializer.dims, 0) > 0 ? 0 : static_cast<int64_t>(count);
      const at::Tensor bytes = at::zeros({static_cast<int64_t>(type.bytes(elements))}, at::kByte);
      return Value::of_bytes(bytes, {.type = &type, .device = at::kCPU, .sizes = initializer.dims});
    }
  }
  return {};
}

// Whether nothing speaks against giving one for `wanted`.
bool is_plain(const Initializer& wanted, const ModelProto& proto) {
  const auto fits = [&](const Initializer& other) {
    return other.name != wanted.name ||
           (other.data_type == wanted.data_type && other.dims == wanted.dims);
  };
  return wanted.name.find('\0') == std::string::npos && !proto.constants.contains(wanted.name) &&
         std::ranges::all_of(proto.initializers, fits) &&
         std::ranges::all_of(proto.nested_initializers, fits);
}

void check_initializers(std::string_view model, const ModelProto& proto) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(model.size())}, at::kByte);
  std::ranges::copy(model, static_cast<char*>(bytes.mutable_data_ptr()));
  SessionConfig config{.model = bytes};
  const SessionOptionsHandle options = config.make_options();
  const bool is_ort = is_ort_format(std::as_bytes(std::span(model.data(), model.size())));
  constexpr size_t most = 4;
  for (size_t i = 0; i < std::min(proto.initializers.size(), most); ++i) {
    const Initializer& wanted = proto.initializers[i];
    const ValuePtr value = value_for(wanted);
    if (!value.defined()) {
      continue;
    }
    config.initializers = {{wanted.name, value}};
    InitializedOptions made;
    const bool given = succeeds([&] { made = with_initializers(options.get(), config); });
    require(!given || (made.options != nullptr && made.borrowed.size() == 1),
            "what was given is in the options");
    // What ONNX Runtime says to an empty name is its own affair.
    require(given == (is_plain(wanted, proto) && !is_ort) || wanted.name.empty(),
            "an initializer is taken if and only if it fits all that have its name");
  }
}

void load_model(Input input) {
  {
    const Input bytes = input.subspan(std::min<size_t>(input.size(), 1));
    const std::string_view model(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    bool accepted = false;
    const ModelProto proto = read(model, accepted);
    const std::optional<ModelProto> expected = reference_of(model);
    require(accepted == expected.has_value(), "what is no model is refused, and nothing else");
    require(!accepted || is_same(proto, *expected), "a model says what it says");
    static const Folder folder;
    const std::string path = folder.write("model.onnx", model);
    ModelProto from_file;
    const bool file_accepted = accepts([&] { from_file = read_model_proto(path); });
    require(file_accepted == accepted && is_same(from_file, proto), "a file is read as memory is");
    check_files(path, accepted ? &proto : nullptr);
    if (accepted) {
      check_initializers(model, proto);
      check_shapes_of_model(model);
    }
  }
  check_nothing_lives();
}

}  // namespace

const Target kModel{.name = "model", .begin = [] {}, .run = load_model, .is_message = true};

}  // namespace ortdl::fuzz
