// That nobody gets at, or in the place of, another program's engine by what a blob claims.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "delegate_fixture.h"
#include "engine_cache.h"

namespace executorch_tensorrt::test {
namespace {

/// A blob that claims the id, whatever its engine's bytes are. An engine adds its first byte.
DelegateBlob blob_of(const std::string& engine, uint8_t id) {
  DelegateBlob blob = fake_blob();
  blob.engine_id.fill(id);
  blob.engine = {reinterpret_cast<const uint8_t*>(engine.data()), engine.size()};
  return blob;
}

/// The device of the running test.
std::shared_ptr<FakeDevice> device_of_test;
int created = 0;

Result<std::shared_ptr<Engine>> load_fake(const DelegateBlob& blob, Device&, const EngineOptions&) {
  ++created;
  return std::shared_ptr<Engine>(std::make_shared<FakeEngine>(device_of_test, blob.engine.data[0]));
}

class EngineIdentityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_of_test = device_;
    created = 0;
  }
  void TearDown() override { device_of_test.reset(); }

  Result<std::shared_ptr<Engine>> load(const DelegateBlob& blob) {
    return shared_tensorrt_engine(blob, *device_, {}, load_fake);
  }

  /// What x = 1 becomes in a delegate over the engine that the blob gets.
  bool answers(const DelegateBlob& blob, float expected) {
    const auto engine = load(blob);
    EXPECT_TRUE(engine.ok());
    auto delegate = make_delegate(device_, {}, std::static_pointer_cast<FakeEngine>(*engine));
    EXPECT_TRUE(delegate.ok());
    FakeTensor x(*device_, 8, true), y(*device_, 8, true);
    x.fill(1);
    EXPECT_EQ(execute(**delegate, x, y), Error::Ok);
    return y.holds(expected);
  }

  const std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
};

TEST_F(EngineIdentityTest, DelegatesThatCarryTheSameEngineShareIt) {
  // In memory of their own, as two loads of one program have it.
  const std::string engine = "\5 same", again = engine;
  const auto first = load(blob_of(engine, 1)), second = load(blob_of(again, 1));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(created, 1);
}

TEST_F(EngineIdentityTest, ABlobThatClaimsAnotherOnesIdGetsTheEngineThatItCarries) {
  const std::string honest = "\5 honest", hostile = "\7 hostle";
  const auto kept = load(blob_of(honest, 1));
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(answers(blob_of(hostile, 1), 1 + 7)) << "another program's engine was claimed";
  EXPECT_EQ(created, 2);
}

TEST_F(EngineIdentityTest, ABlobThatWasThereFirstUnderAForeignIdDoesNotAnswerForTheHonestOne) {
  const std::string honest = "\5 honest", hostile = "\7 hostle";
  const auto kept = load(blob_of(hostile, 1));
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(answers(blob_of(honest, 1), 1 + 5)) << "the cache was poisoned";
}

TEST_F(EngineIdentityTest, EnginesThatDifferInOneByteOrInLengthAreTwo) {
  std::string engine(1 << 16, '\5'), other = engine, longer = engine;
  other[other.size() - 1] = '\6';
  longer += '\0';
  std::vector<std::shared_ptr<Engine>> kept;
  for (const std::string* bytes : {&engine, &other, &longer}) {
    kept.push_back(*load(blob_of(*bytes, 1)));
  }
  EXPECT_EQ(created, 3);
}

}  // namespace
}  // namespace executorch_tensorrt::test
