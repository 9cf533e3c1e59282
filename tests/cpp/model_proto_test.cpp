#include <ortdl/model_proto.h>
#include <ortdl/proto_reader.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class ModelProtoTest : public CountedTest {};

using Strings = std::set<std::string>;

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80U; value >>= 7U) {
    bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  }
  return bytes + static_cast<char>(value);
}

std::string number(uint32_t field, uint64_t value) { return varint(field << 3U) + varint(value); }

std::string text(uint32_t field, const std::string& value) {
  return varint((field << 3U) | 2U) + varint(value.size()) + value;
}

std::string entry(const std::string& key, const std::string& value) {
  return text(13, text(1, key) + text(2, value));
}

// A float TensorProto of shape (2, 3) whose elements are in the file `location`.
std::string external(const std::string& name, const std::string& location) {
  return number(1, 2) + number(1, 3) + number(2, 1) + text(8, name) + entry("location", location) +
         number(14, 1);
}

std::string model_of(const std::string& graph) { return number(1, 10) + text(7, graph); }

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

ModelProto read(const std::string& model) { return read_model_proto(bytes_of(model)); }

// A model with tensors in every place that can hold one.
std::string rich_model() {
  const std::string inner = text(5, external("inner", "subgraph.bin"));
  const std::string branches = text(5, text(1, "then_branch") + text(6, inner)) +
                               text(5, text(11, text(5, external("other", "list.bin"))));
  const std::string constants = text(5, text(5, external("", "constant.bin"))) +
                                text(5, text(10, external("", "constants.bin"))) +
                                text(5, text(22, text(1, external("", "values.bin")))) +
                                text(5, text(23, text(2, external("", "indices.bin"))));
  const std::string sparse = text(1, external("sparse", "sparse.bin"));
  const std::string graph =
      text(1, text(4, "If") + branches) + text(1, constants) + text(5, external("w", "w.bin")) +
      text(5, number(1, 4) + number(2, 7) + text(8, "indices")) + text(15, sparse);
  const std::string function = text(7, text(5, text(5, external("", "function.bin")))) +
                               text(11, text(5, external("", "default.bin")));
  const std::string training = text(1, text(5, external("t", "init.bin")));
  return model_of(graph) + text(25, function) + text(20, training);
}

TEST_F(ModelProtoTest, GivesTheGraphsInitializers) {
  const at::Tensor model =
      onnx::model({{"MatMul", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}},
                  {{"w", at::ones({2, 3})}, {"i", at::ones({4}, at::kLong), 7}});
  const ModelProto proto = read_model_proto(
      {static_cast<const std::byte*>(model.const_data_ptr()), static_cast<size_t>(model.nbytes())});
  ASSERT_EQ(proto.initializers.size(), 2);
  EXPECT_EQ(proto.initializers[0].name, "w");
  EXPECT_EQ(proto.initializers[0].data_type, 1);
  EXPECT_EQ(proto.initializers[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(proto.initializers[0].external.has_value());
  EXPECT_EQ(proto.initializers[1].name, "i");
  EXPECT_EQ(proto.initializers[1].data_type, 7);
  EXPECT_EQ(proto.initializers[1].dims, (std::vector<int64_t>{4}));
  EXPECT_TRUE(proto.external_locations.empty());
}

TEST_F(ModelProtoTest, FindsExternalDataWhereverATensorCanBe) {
  const ModelProto proto = read(rich_model());
  ASSERT_EQ(proto.initializers.size(), 2);
  EXPECT_EQ(proto.initializers[0].external, (ExternalData{.location = "w.bin"}));
  EXPECT_FALSE(proto.initializers[1].external.has_value());
  EXPECT_EQ(proto.external_locations,
            (Strings{"constant.bin", "constants.bin", "default.bin", "function.bin", "indices.bin",
                     "init.bin", "list.bin", "sparse.bin", "subgraph.bin", "values.bin", "w.bin"}));
  EXPECT_TRUE(proto.external_elsewhere);
  Strings nested;
  for (const Initializer& initializer : proto.nested_initializers) {
    nested.insert(initializer.name);
  }
  EXPECT_EQ(nested, (Strings{"inner", "other", "t"}));
}

TEST_F(ModelProtoTest, ReadsWhereInAFileElementsAre) {
  const std::string tensor = external("w", "w.bin") + entry("offset", "4096") +
                             entry("length", "24") + entry("checksum", "x");
  EXPECT_EQ(read(model_of(text(5, tensor))).initializers.at(0).external,
            (ExternalData{.location = "w.bin", .offset = 4096, .length = 24}));
  EXPECT_FALSE(read(model_of(text(5, tensor))).external_elsewhere);
  for (const char* key : {"offset", "length"}) {
    for (const char* wrong : {"", "-1", "4k", "99999999999999999999"}) {
      const std::string model = model_of(text(5, external("w", "w.bin") + entry(key, wrong)));
      expect_error<c10::ValueError>([&] { return read(model); }, {key, wrong});
    }
  }
}

TEST_F(ModelProtoTest, TakesDataInTheModelForWhatItIs) {
  const std::string tensor = text(8, "w") + entry("location", "unused.bin") + number(14, 0);
  const ModelProto proto = read(model_of(text(5, tensor)));
  EXPECT_FALSE(proto.initializers.at(0).external.has_value());
  EXPECT_TRUE(proto.external_locations.empty());
}

TEST_F(ModelProtoTest, NamesConstantsWhereverTheyAre) {
  const auto node = [](const std::string& type, const std::string& output) {
    return text(1, text(2, output) + text(4, type));
  };
  const std::string inner = text(5, text(6, node("Constant", "deep")));
  const std::string sparse = text(15, text(1, text(8, "sparse")));
  const std::string nodes = node("Constant", "c") + node("Relu", "y") + text(1, inner);
  EXPECT_EQ(read(model_of(nodes + sparse)).constants, (Strings{"c", "deep", "sparse"}));
}

TEST_F(ModelProtoTest, ReadsPackedDimensions) {
  const std::string packed = text(1, varint(300) + varint(0) + varint(2));
  EXPECT_EQ(read(model_of(text(5, packed))).initializers.at(0).dims,
            (std::vector<int64_t>{300, 0, 2}));
}

TEST_F(ModelProtoTest, PassesOverFieldsItDoesNotKnow) {
  const std::string fixed = varint((100U << 3U) | 1U) + std::string(8, 'x') +
                            varint((101U << 3U) | 5U) + std::string(4, 'x');
  const std::string model = fixed + model_of(text(5, fixed + external("w", "w.bin"))) + fixed;
  EXPECT_EQ(read(model).initializers.at(0).name, "w");
  // A known number of another kind is an unknown field as well.
  EXPECT_TRUE(read(number(7, 1) + number(25, 1)).initializers.empty());
}

TEST_F(ModelProtoTest, TellsEveryTruncation) {
  const std::string model = rich_model();
  size_t refused = 0;
  for (size_t size = 0; size < model.size(); ++size) {
    // A copy of just that size, so that a sanitizer sees what is read behind it.
    const std::vector<char> cut(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(size));
    try {
      static_cast<void>(read_model_proto(std::as_bytes(std::span(cut))));
    } catch (const c10::ValueError&) {
      ++refused;
    }
  }
  // All but those before and behind the version, and between the three parts.
  EXPECT_EQ(refused, model.size() - 4);
}

TEST_F(ModelProtoTest, SurvivesEveryChangedByte) {
  const std::string model = rich_model();
  size_t refused = 0;
  for (size_t at = 0; at < model.size(); ++at) {
    for (const unsigned char value : {0x00, 0x01, 0x0B, 0x7F, 0x80, 0xFF}) {
      std::vector<char> changed(model.begin(), model.end());
      changed[at] = static_cast<char>(value);
      try {
        const ModelProto proto = read_model_proto(std::as_bytes(std::span(changed)));
        EXPECT_LE(proto.initializers.size(), model.size());
      } catch (const c10::ValueError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, model.size());
}

TEST_F(ModelProtoTest, TakesNoLengthOnTrust) {
  const std::string huge = varint(std::numeric_limits<uint64_t>::max());
  const std::string tag = varint((7U << 3U) | 2U);
  expect_error<c10::ValueError>([&] { return read(tag + huge); }, {"0 are left"});
  expect_error<c10::ValueError>([&] { return read(tag + std::string(11, '\xFF')); }, {"64 bits"});
  expect_error<c10::ValueError>([&] { return read(std::string(1, '\0')); }, {"number 0"});
  expect_error<c10::ValueError>([&] { return read(varint((7U << 3U) | 3U)); }, {"kind 3"});
}

TEST_F(ModelProtoTest, DepthCostsNoStack) {
  // Lengths are written from the inside out, so the model is built in reverse.
  std::string reversed;
  const auto wrap = [&](uint32_t field) {
    const std::string head = varint((field << 3U) | 2U) + varint(reversed.size());
    reversed.append(head.rbegin(), head.rend());
  };
  for (int depth = 0; depth < 100000; ++depth) {
    for (const uint32_t field : {6U, 5U, 1U}) {
      wrap(field);
    }
  }
  wrap(7);
  EXPECT_TRUE(read({reversed.rbegin(), reversed.rend()}).initializers.empty());
}

TEST_F(ModelProtoTest, ReadsAFile) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "model_proto_test.onnx";
  std::ofstream(path, std::ios::binary) << rich_model();
  EXPECT_EQ(read_model_proto(path.string()).external_locations.size(), 11);
  std::ofstream(path, std::ios::binary | std::ios::trunc).close();
  EXPECT_TRUE(read_model_proto(path.string()).external_locations.empty());
  std::filesystem::remove(path);
  EXPECT_THROW(static_cast<void>(read_model_proto(path.string())), c10::Error);
}

// Bytes beyond the end of a file that shrank would be a SIGBUS in a mapping of it.
TEST_F(ModelProtoTest, AFileThatShrinksIsAnError) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "model_proto_test_shrinks.onnx";
  constexpr size_t size = 300'000;
  std::ofstream(path, std::ios::binary) << std::string(size, 'x');
  detail::WindowedFile file(path.string());
  EXPECT_EQ(file.at(size - 1), std::byte{'x'});
  std::filesystem::resize_file(path, 70'000);
  for (int i = 0; i < 2; ++i) {
    expect_error<c10::Error>([&] { return file.at(100'000); },
                             {path.string(), "had 300000 bytes", "cut to 70000"});
    expect_error<c10::Error>([&] { return detail::ByteView(file).text(); }, {"cut to 70000"});
  }
  EXPECT_EQ(file.at(60'000), std::byte{'x'});
  std::filesystem::remove(path);
}

TEST_F(ModelProtoTest, ReadsTheSameFromAFileInPieces) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "model_proto_test_pieces.onnx";
  // Fields on both sides of the windows' edges, and elements that are passed over.
  std::string graph;
  for (int i = 0; i < 40; ++i) {
    graph += text(5, external("w" + std::to_string(i), "w.bin") + text(9, std::string(9973, 'e')));
  }
  std::ofstream(path, std::ios::binary) << model_of(graph);
  const ModelProto from_file = read_model_proto(path.string());
  const ModelProto from_memory = read(model_of(graph));
  ASSERT_EQ(from_file.initializers.size(), 40);
  for (size_t i = 0; i < from_file.initializers.size(); ++i) {
    EXPECT_EQ(from_file.initializers[i].name, "w" + std::to_string(i));
    EXPECT_EQ(from_file.initializers[i].dims, from_memory.initializers[i].dims);
    EXPECT_EQ(from_file.initializers[i].external, from_memory.initializers[i].external);
  }
  EXPECT_EQ(from_file.external_locations, from_memory.external_locations);
  std::filesystem::remove(path);
}

TEST_F(ModelProtoTest, WhatIsNoFileIsRefused) {
  expect_error<c10::Error>([] { return read_model_proto(::testing::TempDir()); },
                           {"no regular file"});
}

TEST_F(ModelProtoTest, KnowsOnnxRuntimesOwnFormat) {
  EXPECT_TRUE(is_ort_format(bytes_of("....ORTM....")));
  EXPECT_FALSE(is_ort_format(bytes_of("....ORT")));
  EXPECT_FALSE(is_ort_format(bytes_of(rich_model())));
}

}  // namespace
}  // namespace ortdl::test
