// Errors with words, also when there is no memory left for them.
#include "last_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "allocation_counter.h"
#include "captured_log.h"
#include "delegate_blob.h"
#include "profile_table.h"
#include "raw_blob.h"

namespace executorch_tensorrt::test {
namespace {

TEST(LastError, KeepsTheTextUntilTheNextOrUntilCleared) {
  const CapturedLog log;
  EXPECT_EQ(report(Error::NotFound, "no driver"), Error::NotFound);
  EXPECT_STREQ(last_error_message(), "no driver");
  EXPECT_EQ(report(Error::Internal, std::string("a fault")), Error::Internal);
  EXPECT_STREQ(last_error_message(), "a fault");
  EXPECT_EQ(CapturedLog::text(), "no driver\na fault\n");
  clear_last_error();
  EXPECT_STREQ(last_error_message(), "");
}

TEST(LastError, BelongsToTheThreadThatReported) {
  const CapturedLog log;
  EXPECT_EQ(report(Error::Internal, "here"), Error::Internal);
  std::thread([] {
    EXPECT_STREQ(last_error_message(), "");
    EXPECT_EQ(report(Error::Internal, "there"), Error::Internal);
    EXPECT_STREQ(last_error_message(), "there");
  }).join();
  EXPECT_STREQ(last_error_message(), "here");
}

TEST(LastError, LogsALongTextWhole) {
  const CapturedLog log;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "input" + std::to_string(i) + " 1..8x512, ";
  text += std::string(600, 'x');  // no space to break at
  EXPECT_EQ(report(Error::InvalidArgument, text), Error::InvalidArgument);
  EXPECT_EQ(last_error_message(), text);
  std::string logged = CapturedLog::text();
  logged.erase(std::remove(logged.begin(), logged.end(), '\n'), logged.end());
  EXPECT_EQ(logged, text);
}

TEST(LastError, ReportsALiteralThoughThereIsNoMemoryForIt) {
  const CapturedLog log;
  CapturedLog::text().reserve(1024);
  clear_last_error();
  std::thread([] {  // whose last error has no memory yet
    clear_last_error();
    const FailingAllocations failing;
    const Error error = report(Error::Internal, "a text too long to stand in the string itself");
    EXPECT_EQ(error, Error::Internal);
  })
      .join();
  EXPECT_EQ(CapturedLog::text(), "a text too long to stand in the string itself\n");
}

TEST(LastError, RefusingABlobWithoutMemoryIsAnErrorNotACrash) {
  const CapturedLog log;
  CapturedLog::text().reserve(1024);
  const Bytes blob = seal(RawMetadata().bytes());
  const Bytes wrong(300, 'x');
  Error of_blob = Error::Ok;
  Error of_wrong = Error::Ok;
  std::thread([&] {
    clear_last_error();
    const FailingAllocations failing;
    of_blob = DelegateBlob::parse(blob.data(), blob.size()).error();
    of_wrong = DelegateBlob::parse(wrong.data(), wrong.size()).error();
  }).join();
  EXPECT_EQ(of_blob, Error::MemoryAllocationFailed);
  EXPECT_EQ(of_wrong, Error::MemoryAllocationFailed);
}

TEST(LastError, RefusingAShapeWithoutMemoryIsTheSameError) {
  const CapturedLog log;
  CapturedLog::text().reserve(1024);
  const ProfileTable table({"x"}, {{"p0", 0, {{}}}});
  Dims shape;
  shape.rank = 1;
  Error error = Error::Ok;
  std::thread([&] {
    clear_last_error();
    const FailingAllocations failing;
    error = table.select(Automatic{}, SelectionPolicy::kSticky, std::nullopt, {&shape, 1}).error();
  }).join();
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_EQ(CapturedLog::text(), "no such optimization profile, or inputs out of range\n");
}

}  // namespace
}  // namespace executorch_tensorrt::test
