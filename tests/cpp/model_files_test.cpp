#include <ortdl/digest.h>
#include <ortdl/model_files.h>

#include <filesystem>
#include <fstream>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

namespace fs = std::filesystem;

// A folder that goes with the test.
class ModelFilesTest : public CountedTest {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(folder_ / "inner");
  }
  void TearDown() override {
    fs::remove_all(root_);
    CountedTest::TearDown();
  }

  static void write(const fs::path& path, const at::Tensor& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(static_cast<const char*>(bytes.const_data_ptr()),
               static_cast<std::streamsize>(bytes.nbytes()));
  }

  // The path of a model whose weight is in `location`.
  std::string model_with(const std::string& location) const {
    write(folder_ / "model.onnx", onnx::external_weight(location));
    return (folder_ / "model.onnx").string();
  }

  static void expect_shifts(const SessionConfig& config) {
    const auto session = c10::make_intrusive<Session>(config);
    EXPECT_TRUE(at::equal(session->run({at::ones({2})})[0], at::tensor({3.F, 4.F})));
  }

  fs::path root_ = fs::path(::testing::TempDir()) / "ortdl_model_files_test";
  fs::path folder_ = root_ / "model";
  at::Tensor weight_ = at::tensor({2.F, 3.F});
};

TEST_F(ModelFilesTest, FindsTheFilesOfExternalData) {
  const std::string path = model_with("inner/weight.bin");
  write(folder_ / "inner/weight.bin", weight_);
  const std::vector<ModelFile> files = model_files(path, true);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].name, "");
  EXPECT_EQ(files[0].path, path);
  EXPECT_EQ(files[0].digest, file_digest(path));
  EXPECT_EQ(files[1].name, "inner/weight.bin");
  EXPECT_EQ(files[1].stamp.value_or(FileStamp()).size, 8);
  EXPECT_NE(files[1].digest, files[0].digest);
  EXPECT_EQ(model_files(path, false)[1].digest, "");
  EXPECT_TRUE(at::equal(read_file(files[1]).view(at::kFloat), weight_));
}

TEST_F(ModelFilesTest, WhatIsNoModelNamesNoFiles) {
  const std::string path = (folder_ / "model.onnx").string();
  EXPECT_FALSE(model_files(path, true).at(0).stamp.has_value());
  EXPECT_FALSE(model_files(folder_.string(), true).at(0).stamp.has_value());
  write(path, patterned({50}, at::kByte, 200));
  EXPECT_EQ(model_files(path, true).size(), 1U);
}

TEST_F(ModelFilesTest, NoticesEveryChange) {
  const fs::path path = folder_ / "data";
  write(path, weight_);
  const ModelFile file = model_files(path.string(), false).front();
  require_unchanged(file);
  write(path, at::ones({3}));
  expect_error<c10::Error>([&] { return read_file(file); }, {path.string(), "changed"});
  fs::remove(path);
  expect_error<c10::Error>([&] { return read_file(file); }, {path.string(), "gone"});
}

TEST_F(ModelFilesTest, DigestsTellEveryByteOfEverySize) {
  const fs::path path = folder_ / "data";
  std::vector<std::string> seen;
  for (const int64_t size : {0, 1, 64, (1 << 20) - 1, 1 << 20, (1 << 20) + 1}) {
    const at::Tensor bytes = at::zeros({size}, at::kByte);
    write(path, bytes);
    seen.push_back(file_digest(path.string()));
    EXPECT_EQ(file_digest(path.string()), seen.back());
    EXPECT_EQ(seen.back().size(), 40U);
    if (size > 0) {
      bytes[size - 1] = 1;
      write(path, bytes);
      seen.push_back(file_digest(path.string()));
    }
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  expect_error<c10::Error>([&] { return file_digest((folder_ / "none").string()); }, {"none"});
}

TEST_F(ModelFilesTest, SavesExternalDataAndLoadsItFromMemory) {
  const SessionConfig config{.path = model_with("inner/weight.bin")};
  write(folder_ / "inner/weight.bin", weight_);
  expect_shifts(config);
  const SessionState state = config.state();
  fs::remove_all(folder_);
  expect_shifts(SessionConfig::from_state(state));
  expect_shifts(SessionConfig::from_state(SessionConfig::from_state(state).state()));
}

TEST_F(ModelFilesTest, SavesPathsAndDigests) {
  const SessionConfig config{.path = model_with("weight.bin"), .embed = false};
  write(folder_ / "weight.bin", weight_);
  const SessionState state = config.state();
  for (const auto& [path, digest, bytes] : std::get<1>(state)) {
    EXPECT_EQ(digest, file_digest(path));
    EXPECT_EQ(bytes.numel(), 0);
  }
  expect_shifts(SessionConfig::from_state(state));
  write(folder_ / "weight.bin", at::ones({2}));
  expect_error<c10::Error>(
      [&] { return c10::make_intrusive<Session>(SessionConfig::from_state(state)); },
      {"weight.bin", "digest"});
  fs::remove(folder_ / "weight.bin");
  expect_error<c10::Error>(
      [&] { return c10::make_intrusive<Session>(SessionConfig::from_state(state)); },
      {"weight.bin", "there is none", "embed=True"});
}

TEST_F(ModelFilesTest, BytesAreNotSavedByReference) {
  expect_error<c10::ValueError>(
      [] {
        return c10::make_intrusive<Session>(
            SessionConfig{.model = onnx::subtract(), .embed = false});
      },
      {"embed=False", "path"});
}

TEST_F(ModelFilesTest, ExternalDataOfBytesNeedsItsFiles) {
  SessionConfig config{.model = onnx::external_weight("weight.bin")};
  expect_error<c10::ValueError>([&] { return config.state(); }, {"weight.bin", "as bytes"});
  config.external_files.push_back({"weight.bin", weight_.view(at::kByte)});
  expect_shifts(config);
  expect_shifts(SessionConfig::from_state(config.state()));
}

TEST_F(ModelFilesTest, WhatLeavesTheFolderIsRefusedAsOnnxRuntimeDoes) {
  const fs::path outside = root_ / "weight.bin";
  write(outside, weight_);
  fs::create_symlink(outside, folder_ / "link.bin");
  fs::create_directory_symlink(root_, folder_ / "up");
  for (const std::string& location :
       {std::string("../weight.bin"), outside.string(), std::string("link.bin"),
        std::string("inner/../../weight.bin"), std::string("up/weight.bin")}) {
    const SessionConfig embedded{.path = model_with(location)};
    expect_error<OrtError>([&] { return c10::make_intrusive<Session>(embedded); }, {"xternal"});
    // Its digest would be taken before ONNX Runtime looks at it.
    const SessionConfig referred{.path = embedded.path, .embed = false};
    const std::initializer_list<std::string_view> words{location, "outside of the model's folder"};
    expect_error<c10::ValueError>([&] { return c10::make_intrusive<Session>(referred); }, words);
    for (const SessionConfig& config : {embedded, referred}) {
      expect_error<c10::ValueError>([&] { return config.state(); }, words);
    }
  }
}

TEST_F(ModelFilesTest, WhatStaysInTheFolderIsTakenAsOnnxRuntimeDoes) {
  write(folder_ / "weight.bin", weight_);
  fs::create_symlink("weight.bin", folder_ / "link.bin");
  for (const std::string location : {"./weight.bin", "inner/../weight.bin", "link.bin"}) {
    const SessionConfig config{.path = model_with(location)};
    expect_shifts(config);
    expect_shifts(SessionConfig::from_state(config.state()));
  }
  // As a cache of downloads has them: the links beside each other, and so the files.
  static_cast<void>(model_with("weight.bin"));
  fs::create_directory(root_ / "links");
  for (const char* name : {"model.onnx", "weight.bin"}) {
    fs::create_symlink(folder_ / name, root_ / "links" / name);
  }
  const SessionConfig config{.path = (root_ / "links/model.onnx").string()};
  expect_shifts(config);
  expect_shifts(SessionConfig::from_state(config.state()));
}

}  // namespace
}  // namespace ortdl::test
