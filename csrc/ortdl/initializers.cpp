#include <ortdl/initializers.h>
#include <ortdl/memory.h>
#include <ortdl/model_proto.h>
#include <ortdl/real_ops.h>
#include <ortdl/saved_bytes.h>
#include <ortdl/session_config.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <sstream>

namespace ortdl {
namespace {

const ElementType* find_type(int64_t onnx) {
  const auto found = std::ranges::find(element_types(), onnx, &ElementType::onnx);
  return found == element_types().end() ? nullptr : &*found;
}

// As onnxruntime spells it, of every type that a value can have.
std::string type_of(const Initializer& initializer) {
  const ElementType* type = find_type(initializer.data_type);
  return type == nullptr ? "tensor of ONNX's type " + std::to_string(initializer.data_type)
                         : std::string("tensor(") + type->name + ")";
}

std::string describe(const std::vector<Initializer>& initializers) {
  constexpr size_t shown = 8;
  std::ostringstream text;
  for (const Initializer& known :
       std::span(initializers).first(std::min(initializers.size(), shown))) {
    text << "'" << known.name << "' (" << type_of(known) << ", " << at::IntArrayRef(known.dims)
         << "), ";
  }
  if (initializers.empty()) {
    return "none";
  }
  std::string listed = text.str();
  listed.resize(listed.size() - 2);
  return initializers.size() <= shown
             ? listed
             : listed + " and " + std::to_string(initializers.size() - shown) + " more";
}

// ONNX Runtime compares neither, and reads the memory as what the model says.
void check_same(const Initializer& known, const Value& value) {
  TORCH_CHECK_TYPE(value.type().onnx == known.data_type, "the initializer '", known.name, "' is a ",
                   type_of(known), " in the model, but a ", value.type_string(),
                   " was given: convert it with tensor.to(dtype)");
  TORCH_CHECK_VALUE(value.sizes() == at::IntArrayRef(known.dims), "the initializer '", known.name,
                    "' has the shape ", at::IntArrayRef(known.dims),
                    " in the model, but one of shape ", value.sizes(), " was given");
}

// ONNX Runtime goes by the name alone, in subgraphs as well, and of two it takes the last.
void check(const NamedValue& given, const ModelProto& model) {
  const auto& [name, value] = given;
  TORCH_CHECK_VALUE(
      name.find('\0') == std::string::npos, "an initializer was given for the name '", name,
      "', which holds a NUL, and ONNX Runtime would cut it there: rename it in the model");
  const auto known = std::ranges::find(model.initializers, name, &Initializer::name);
  TORCH_CHECK_VALUE(known != model.initializers.end(), "the model has no initializer named '", name,
                    "'. Its initializers are: ", describe(model.initializers));
  TORCH_CHECK_TYPE(value.defined() && value->is_tensor(), "the initializer '", name,
                   "' must be a tensor");
  TORCH_CHECK_VALUE(value->device().is_cpu(), "the initializer '", name,
                    "' must be on the CPU, where the session works, but one on ", value->device(),
                    " was given: move it with tensor.cpu()");
  TORCH_CHECK_VALUE(
      !model.constants.contains(name), "the initializer '", name,
      "' cannot be given: a Constant node or sparse tensor of the model has the same name");
  for (const auto* initializers : {&model.initializers, &model.nested_initializers}) {
    for (const Initializer& known : *initializers) {
      if (known.name == name) {
        check_same(known, *value);
      }
    }
  }
}

bool fits(at::IntArrayRef sizes, const ElementType& type, const at::Tensor& bytes) {
  try {
    return bytes.nbytes() == type.bytes(checked_numel(sizes));
  } catch (const c10::ValueError&) {
    return false;  // no tensor has such sizes
  }
}

// The same tensor, in a value that does not own it.
ValueHandle borrow(const Value& value) {
  ::OrtValue* borrowed = nullptr;
  check_status(api().CreateTensorWithDataAsOrtValue(
      memory_info(at::kCPU), value.data(), value.nbytes(), value.sizes().data(),
      value.sizes().size(), value.type().ort, &borrowed));
  return ValueHandle(borrowed);
}

ModelProto read_model(const SessionConfig& config) {
  if (!config.model.defined()) {
    return read_model_proto(config.path);
  }
  const std::span bytes(static_cast<const std::byte*>(config.model.const_data_ptr()),
                        config.model.nbytes());
  TORCH_CHECK_VALUE(!is_ort_format(bytes),
                    "initializers can be given to ONNX models only, and this one is in ONNX "
                    "Runtime's own format");
  return read_model_proto(bytes);
}

}  // namespace

void require_cpu_for_initializers(const std::vector<std::string>& providers) {
  for (const std::string& provider : providers) {
    TORCH_CHECK_VALUE(provider == kCpuProvider, "initializers are shared with sessions on ",
                      kCpuProvider, " only, but ", provider,
                      " was asked for, which may work on weights of its own: leave it or the "
                      "initializers out");
  }
}

std::vector<SavedInitializer> save_initializers(const std::vector<NamedValue>& initializers) {
  const RealOps real;
  std::vector<SavedInitializer> saved;
  saved.reserve(initializers.size());
  for (const auto& [name, value] : initializers) {
    saved.emplace_back(name, value->type().onnx, value->sizes().vec(), value->bytes().clone());
  }
  return saved;
}

std::vector<NamedValue> load_initializers(std::vector<SavedInitializer> saved) {
  std::vector<NamedValue> initializers;
  initializers.reserve(saved.size());
  for (auto& [name, onnx, sizes, bytes] : saved) {
    const ElementType* type = find_type(onnx);
    TORCH_CHECK_VALUE(type != nullptr && detail::holds_bytes(bytes) && fits(sizes, *type, bytes),
                      detail::kDamaged, "the initializer '", name, "' makes no sense");
    const Layout layout{.type = type, .data = nullptr, .device = at::kCPU, .sizes = sizes};
    initializers.push_back({std::move(name), Value::of_bytes(detail::owned(bytes), layout)});
  }
  return initializers;
}

InitializedOptions with_initializers(const OrtSessionOptions* options,
                                     const SessionConfig& config) {
  std::vector<std::string> providers;
  std::ranges::transform(config.providers, std::back_inserter(providers), &Provider::name);
  require_cpu_for_initializers(providers);
  const ModelProto model = read_model(config);
  OrtSessionOptions* cloned = nullptr;
  check_status(api().CloneSessionOptions(options, &cloned));
  InitializedOptions made{.options = SessionOptionsHandle(cloned), .borrowed = {}};
  std::set<std::string> names;
  for (const NamedValue& given : config.initializers) {
    TORCH_CHECK_VALUE(names.insert(given.name).second, "the initializer '", given.name,
                      "' was given twice");
    check(given, model);
    made.borrowed.push_back(borrow(*given.value));
    check_status(api().AddInitializer(cloned, given.name.c_str(), made.borrowed.back().get()));
  }
  check_status(api().SetSessionGraphOptimizationLevel(cloned, ORT_DISABLE_ALL));
  check_status(api().AddSessionConfigEntry(cloned, "session.disable_prepacking", "1"));
  return made;
}

}  // namespace ortdl
