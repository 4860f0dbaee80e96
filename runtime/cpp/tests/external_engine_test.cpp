// Engines outside their blob: found in named data by their id, or refused by name.
#include "external_engine.h"

#include <executorch_tensorrt/error.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "captured_log.h"
#include "last_error_has.h"
#include "raw_blob.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;
using executorch::runtime::TensorLayout;

using Values = std::map<std::string, Bytes>;

/// Named data in memory.
class Data final : public NamedDataMap {
 public:
  explicit Data(Values values) : values_(std::move(values)) {}

  Result<const TensorLayout> get_tensor_layout(std::string_view) const override {
    return Error::NotFound;
  }
  Result<FreeableBuffer> get_data(std::string_view key) const override {
    const auto found = values_.find(std::string(key));
    if (found == values_.end()) return Error::NotFound;
    if (found->second.empty()) return Error::AccessFailed;
    return FreeableBuffer(found->second.data(), found->second.size(), nullptr);
  }
  Error load_data_into(std::string_view, void*, size_t) const override { return Error::NotFound; }
  Result<uint32_t> get_num_keys() const override { return static_cast<uint32_t>(values_.size()); }
  Result<const char*> get_key(uint32_t index) const override {
    return std::next(values_.begin(), index)->first.c_str();
  }

 private:
  Values values_;
};

/// As raw_blob.h makes them, with the engine outside.
Bytes external(const Bytes& fallback = {}) {
  RawMetadata metadata;
  metadata.fallback_size = fallback.size();
  const Bytes bytes = metadata.bytes();
  RawHeader header = header_for(bytes, kRawEngine.size(), fallback.size());
  header.engine_offset = 0;
  header.fallback_offset = fallback.empty() ? 0 : next_section(64 + bytes.size());
  Bytes data = assemble(header, bytes, fallback);
  if (fallback.empty()) data.resize(64 + bytes.size());
  return data;
}

std::string key() {
  std::string key = "tensorrt_engine_";
  for (int i = 0; i < 32; ++i) key += "ab";
  return key;
}

DelegateBlob parsed(const Bytes& data) {
  auto blob = DelegateBlob::parse(data.data(), data.size());
  EXPECT_TRUE(blob.ok()) << last_error_message();
  return std::move(*blob);
}

TEST(ExternalEngine, IsMarkedByAnOffsetOfZeroAndItsSize) {
  const Bytes data = external();
  const DelegateBlob blob = parsed(data);
  EXPECT_TRUE(blob.external_engine);
  EXPECT_EQ(blob.engine.data, nullptr);
  EXPECT_EQ(blob.engine.size, kRawEngine.size());
  EXPECT_EQ(external_engine_key(blob), key());
  const Bytes inside = seal(RawMetadata().bytes());
  EXPECT_FALSE(parsed(inside).external_engine);
}

TEST(ExternalEngine, LeavesTheFallbackInTheBlob) {
  const Bytes data = external({'p', 't', 'e'});
  const DelegateBlob blob = parsed(data);
  EXPECT_TRUE(blob.external_engine);
  EXPECT_EQ(Bytes(blob.fallback.data, blob.fallback.data + blob.fallback.size),
            (Bytes{'p', 't', 'e'}));
}

TEST(ExternalEngine, IsRefusedWhereItsBlobHoldsMoreOrSaysOtherwise) {
  const CapturedLog log;
  Bytes longer = external();
  longer.push_back(0);
  EXPECT_EQ(DelegateBlob::parse(longer.data(), longer.size()).error(),
            Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("its sections end at"));
  Bytes other = external();
  other[40] = 10;  // the engine's size
  EXPECT_EQ(DelegateBlob::parse(other.data(), other.size()).error(),
            Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("engine size is 10 in the header, 9 in the metadata"));
  Bytes none = external();
  none[40] = 0;
  EXPECT_EQ(DelegateBlob::parse(none.data(), none.size()).error(),
            Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("engine offset is 0, not 512"));
}

TEST(ExternalEngine, IsFoundByItsId) {
  const Bytes data = external();
  DelegateBlob blob = parsed(data);
  const Data named(Values{{"weights", {1}}, {key(), kRawEngine}});
  const auto buffer = load_external_engine(blob, &named);
  ASSERT_TRUE(buffer.ok()) << last_error_message();
  EXPECT_EQ(blob.engine.data, buffer->data());
  EXPECT_EQ(Bytes(blob.engine.data, blob.engine.data + blob.engine.size), kRawEngine);
}

TEST(ExternalEngine, MissingOrWrongDataIsRefusedByName) {
  const CapturedLog log;
  const Bytes data = external();
  DelegateBlob blob = parsed(data);
  EXPECT_EQ(load_external_engine(blob, nullptr).error(), Error::InvalidExternalData);
  EXPECT_TRUE(last_error_has(key() + "' (9 bytes), and no data file was given"));
  const Data weights(Values{{"weights", {1}}});
  EXPECT_EQ(load_external_engine(blob, &weights).error(), Error::InvalidExternalData);
  EXPECT_TRUE(last_error_has("and the data given holds no engine"));
  const Data others(Values{{"tensorrt_engine_00", {1}}, {"tensorrt_engine_01", {1}}});
  EXPECT_EQ(load_external_engine(blob, &others).error(), Error::InvalidExternalData);
  EXPECT_TRUE(last_error_has("holds tensorrt_engine_00, tensorrt_engine_01: give the file"));
  const Data cut(Values{{key(), {1, 2, 3}}});
  EXPECT_EQ(load_external_engine(blob, &cut).error(), Error::InvalidExternalData);
  EXPECT_TRUE(last_error_has("and has 3 bytes there"));
  const Data unreadable(Values{{key(), {}}});
  EXPECT_EQ(load_external_engine(blob, &unreadable).error(), Error::InvalidExternalData);
  EXPECT_TRUE(last_error_has("ExecuTorch answered Error::AccessFailed"));
  EXPECT_EQ(blob.engine.data, nullptr);
}

}  // namespace
}  // namespace executorch_tensorrt::test
