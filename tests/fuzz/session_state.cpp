// The input decides the values that an archive holds for a session, which is then made of them as
// TorchScript does it.

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <ortdl/saved_session.h>
#include <torch/custom_class.h>

#include <algorithm>

#include "state_plan.h"
#include "target.h"

namespace ortdl::fuzz {
namespace {

// What PyTorch calls for an object in an archive: `checked` goes through its check of types first,
// which an archive that lies of them passes.
SessionPtr load(const c10::IValue& state, bool checked) {
  static const c10::ClassTypePtr type =
      torch::getCustomClass("__torch__.torch.classes.ortdl.InferenceSession");
  const auto object = c10::ivalue::Object::create(c10::StrongTypePtr(nullptr, type), 1);
  torch::jit::Function& set_state = type->getMethod("__setstate__");
  torch::jit::Stack stack{object, state};
  if (checked) {
    set_state(std::move(stack));
  } else {
    set_state.run(stack);
  }
  return c10::IValue(object).toCustomClass<Session>();
}

void check_config(const SessionConfig& config, const StatePlan& plan) {
  require(config.embed != plan.by_reference && config.path.empty() != plan.by_reference,
          "a model is embedded or referred to");
  for (const auto& entry : config.entries) {
    require(entry.key().find("file") == std::string::npos &&
                entry.key().find("path") == std::string::npos,
            "no entry names a file", entry.key().c_str());
  }
  if (plan.sound && !plan.by_reference) {
    require(bytes_of(config.model) == plan.files.front().second, "the model is what was saved");
    require(config.external_files.size() + 1 == plan.files.size(), "each file is there");
    for (size_t i = 0; i < config.external_files.size(); ++i) {
      const ExternalFile& file = config.external_files[i];
      require(
          file.name == plan.files[i + 1].first && bytes_of(file.bytes) == plan.files[i + 1].second,
          "a file is what was saved");
    }
  }
  for (const NamedValue& given : config.initializers) {
    require(given.value->bytes().numel() == static_cast<int64_t>(given.value->nbytes()),
            "an initializer has its bytes");
    static_cast<void>(given.value->clone());  // every byte is read
  }
}

void check_sound(const Session& session, const StatePlan& plan) {
  const at::Tensor x = at::tensor({-1.F, 2.F});
  at::Tensor expected = at::relu(x);
  if (plan.model == &Models::get().weighted) {
    expected = x.add(plan.weight.has_value() ? at::tensor({3.F, 4.F}) : at::ones({2}));
  } else if (plan.model == &Models::get().external) {
    expected = x.add(2);
  }
  require(at::equal(session.run({x}).at(0), expected), "the model computes what it did");
}

void check_saved_again(const SessionPtr& session) {
  SessionState state;
  if (succeeds([&] { state = save_session(session); })) {
    require(load_session(state) == session, "what is loaded at once is the session itself");
    require(std::get<0>(state) == SessionConfig::kStateVersion, "the version is this one");
  }
}

void load_state(Input input) {
  {
    static const Folder folder;
    Reader reader(input);
    const bool checked = reader.byte() % 2 == 1;
    const StatePlan plan = StatePlan::read(reader, folder);
    SessionPtr session;
    const bool loaded = succeeds([&] { session = load(plan.state, checked); });
    require(loaded || !plan.sound, "what was saved is loaded");
    require(!loaded || !plan.damaged, "what is damaged is refused");
    if (loaded) {
      check_config(session->config(), plan);
      if (plan.sound) {
        check_sound(*session, plan);
      }
      check_saved_again(session);
    }
  }
  check_nothing_lives();
}

}  // namespace

const Target kSessionState{.name = "session_state",
                           .begin = [] { static_cast<void>(environment()); },
                           .run = load_state,
                           .is_message = false};

}  // namespace ortdl::fuzz
