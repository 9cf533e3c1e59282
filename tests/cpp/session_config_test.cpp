#include <ortdl/session.h>
#include <ortdl/session_config.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

// A model in a file that goes with the test.
class SessionConfigTest : public CountedTest {
 protected:
  void SetUp() override { write(onnx::subtract()); }
  void TearDown() override {
    std::filesystem::remove(path_);
    CountedTest::TearDown();
  }

  void write(const at::Tensor& model) {
    std::ofstream file(path_, std::ios::binary);
    file.write(static_cast<const char*>(model.const_data_ptr()),
               static_cast<std::streamsize>(model.nbytes()));
  }

  std::string path_ = ::testing::TempDir() + "ortdl_session_config_test.onnx";
};

StringDict dict(std::initializer_list<std::pair<std::string, std::string>> items) {
  StringDict made;
  for (const auto& [key, value] : items) {
    made.insert(key, value);
  }
  return made;
}

void expect_subtracts(SessionConfig config) {
  const auto session = c10::make_intrusive<Session>(std::move(config));
  const at::Tensor result = session->run({at::full({2}, 5.F), at::full({2}, 3.F)}).at(0);
  EXPECT_TRUE(at::equal(result, at::full({2}, 2.F)));
}

TEST_F(SessionConfigTest, LoadsAFileAndBytes) {
  expect_subtracts({.path = path_});
  expect_subtracts({.model = onnx::subtract()});
}

TEST_F(SessionConfigTest, TakesEveryProperty) {
  expect_subtracts({.model = onnx::subtract(),
                    .properties = dict({{"intra_op_num_threads", "1"},
                                        {"inter_op_num_threads", "1"},
                                        {"execution_mode", "1"},
                                        {"graph_optimization_level", "0"},
                                        {"log_severity_level", "3"},
                                        {"log_verbosity_level", "0"},
                                        {"enable_mem_pattern", "0"},
                                        {"enable_cpu_mem_arena", "0"},
                                        {"use_deterministic_compute", "1"},
                                        {"use_per_session_threads", "1"},
                                        {"logid", "a test's session"}}),
                    .entries = dict({{"session.disable_prepacking", "1"}})});
}

TEST_F(SessionConfigTest, RefusesUnknownProperties) {
  const SessionConfig config{.properties = dict({{"no_such_option", "1"}})};
  expect_error<c10::ValueError>([&] { return config.make_options(); }, {"'no_such_option'"});
}

TEST_F(SessionConfigTest, RefusesPropertiesThatAreNoNumber) {
  for (const char* text : {"", "x", "1x", "1.5", "99999999999999"}) {
    const SessionConfig config{.properties = dict({{"intra_op_num_threads", text}})};
    expect_error<c10::ValueError>([&] { return config.make_options(); },
                                  {"'intra_op_num_threads'", "integer", text});
  }
}

TEST_F(SessionConfigTest, KeepsEntries) {
  const StringDict entries =
      dict({{"session.disable_prepacking", "1"}, {"my.own.entry", "some text"}});
  const SessionConfig config{.entries = entries};
  const StringDict read = config_entries(config.make_options().get());
  EXPECT_EQ(read.at("session.disable_prepacking"), "1");
  EXPECT_EQ(read.at("my.own.entry"), "some text");
  EXPECT_EQ(config_entries(SessionConfig().make_options().get()),
            dict({{"session.force_spinning_stop", "1"}}));
  const StringDict spinning = dict({{"session.intra_op.allow_spinning", "1"}});
  EXPECT_EQ(config_entries(SessionConfig{.entries = spinning}.make_options().get()), spinning);
}

TEST_F(SessionConfigTest, ListsProviders) {
  const std::vector<std::string> offered = available_providers();
  EXPECT_NE(std::ranges::find(offered, "CPUExecutionProvider"), offered.end());
}

TEST_F(SessionConfigTest, TakesTheCpuProvider) {
  expect_subtracts(
      {.model = onnx::subtract(), .providers = {{"CPUExecutionProvider", StringDict()}}});
}

TEST_F(SessionConfigTest, RefusesProvidersThatAreNotOffered) {
  const SessionConfig config{.model = onnx::subtract(),
                             .providers = {{"CPUExecutionProvider", StringDict()},
                                           {"NoSuchExecutionProvider", StringDict()}}};
  const SessionOptionsHandle options = config.make_options();
  expect_error<c10::ValueError>(
      [&] { return append_providers(options.get(), config.providers); },
      {"'NoSuchExecutionProvider'", runtime_version(), "CPUExecutionProvider"});
  expect_error<c10::ValueError>([&] { return c10::make_intrusive<Session>(config); },
                                {"'NoSuchExecutionProvider'"});
}

TEST_F(SessionConfigTest, SavesAndLoads) {
  const SessionConfig config{.model = onnx::subtract(),
                             .properties = dict({{"intra_op_num_threads", "1"}}),
                             .entries = dict({{"my.own.entry", "text"}}),
                             .providers = {{"CPUExecutionProvider", dict({{"key", "value"}})}}};
  const SessionState state = config.state();
  EXPECT_EQ(std::get<0>(state), SessionConfig::kStateVersion);
  const SessionConfig loaded = SessionConfig::from_state(state);
  EXPECT_TRUE(same_bits(loaded.model, config.model));
  EXPECT_TRUE(loaded.path.empty());
  EXPECT_EQ(loaded.properties.at("intra_op_num_threads"), "1");
  EXPECT_EQ(loaded.entries.at("my.own.entry"), "text");
  ASSERT_EQ(loaded.providers.size(), 1U);
  EXPECT_EQ(loaded.providers[0].name, "CPUExecutionProvider");
  EXPECT_EQ(loaded.providers[0].options.at("key"), "value");
  expect_subtracts(loaded);
}

TEST_F(SessionConfigTest, SavesAFilesModelWhole) {
  const auto session = c10::make_intrusive<Session>(SessionConfig{.path = path_});
  const SessionState state = session->config().state();
  ASSERT_EQ(std::get<1>(state).size(), 1U);
  EXPECT_TRUE(same_bits(std::get<at::Tensor>(std::get<1>(state)[0]), onnx::subtract()));
  std::filesystem::remove(path_);
  expect_subtracts(SessionConfig::from_state(state));
}

TEST_F(SessionConfigTest, CannotSaveAModelThatIsGone) {
  const auto session = c10::make_intrusive<Session>(SessionConfig{.path = path_});
  std::filesystem::remove(path_);
  expect_error<c10::Error>([&] { return session->config().state(); },
                           {path_, "is gone", "cannot be saved", "make the session again"});
}

TEST_F(SessionConfigTest, TakesMemoryThatOnlyTheStateHolds) {
  SessionState state = SessionConfig{.model = onnx::subtract()}.state();
  const void* bytes = std::get<at::Tensor>(std::get<1>(state)[0]).const_data_ptr();
  EXPECT_NE(SessionConfig::from_state(state).model.const_data_ptr(), bytes);
  EXPECT_EQ(SessionConfig::from_state(std::move(state)).model.const_data_ptr(), bytes);
}

TEST_F(SessionConfigTest, RefusesAnotherVersion) {
  for (const int64_t version :
       {int64_t{0}, int64_t{1}, int64_t{3}, std::numeric_limits<int64_t>::min()}) {
    SessionState state = SessionConfig{.model = onnx::subtract()}.state();
    std::get<0>(state) = version;
    expect_error<c10::ValueError>([&] { return SessionConfig::from_state(state); },
                                  {"version " + std::to_string(version), "reads version 2"});
  }
}

TEST_F(SessionConfigTest, RefusesADamagedState) {
  for (const at::Tensor& model : {at::Tensor(), at::ones({3}), at::ones({3, 3}, at::kByte)}) {
    SessionState state = SessionConfig{.model = onnx::subtract()}.state();
    std::get<at::Tensor>(std::get<1>(state)[0]) = model;
    expect_error<c10::ValueError>([&] { return SessionConfig::from_state(state); },
                                  {"no bytes of the model", "damaged"});
  }
  SessionState state = SessionConfig{.model = onnx::subtract()}.state();
  std::get<1>(state).clear();
  expect_error<c10::ValueError>([&] { return SessionConfig::from_state(state); },
                                {"no model", "damaged"});
  std::get<1>(state).emplace_back("", "", patterned({64}, at::kByte, 7));
  expect_error<OrtError>(
      [&] { return c10::make_intrusive<Session>(SessionConfig::from_state(state)); },
      {"ONNX Runtime: "});
}

}  // namespace
}  // namespace ortdl::test
