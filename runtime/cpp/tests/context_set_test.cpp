// Contexts are created on threads of their own, as far as the process may have any.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>
#include <thread>

#include "captured_log.h"
#include "delegate_fixture.h"

namespace executorch_tensorrt::test {
namespace {

constexpr int kAsExpected = 0, kOthers = 1, kThreadsStart = 2;

/// Whether a user without privileges, who may have no more threads, gets a delegate that answers.
int load_without_threads() {
  const rlimit none{0, 0};
  constexpr uid_t kNobody = 65534;
  if (setrlimit(RLIMIT_NPROC, &none) != 0) return kThreadsStart;
  if (geteuid() == 0 && setuid(kNobody) != 0) return kThreadsStart;
  try {
    std::thread([] {}).join();
    return kThreadsStart;
  } catch (const std::system_error&) {
    // As is wanted here.
  }
  const auto device = std::make_shared<FakeDevice>();
  const auto engine = std::make_shared<FakeEngine>(device);
  auto delegate = make_delegate(device, {}, engine);
  if (!delegate.ok() || engine->created_contexts != 2) return kOthers;
  for (const int rows : {1, 8}) {
    FakeTensor x(*device, rows, false), y(*device, rows, false);
    x.fill(3);
    if (execute(**delegate, x, y) != Error::Ok || !y.holds(4)) return kOthers;
  }
  return kAsExpected;
}

TEST(ContextSetTest, WhereNoThreadCanBeStartedTheContextsAreCreatedOneAfterAnother) {
  const CapturedLog log;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(load_without_threads());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kThreadsStart) GTEST_SKIP() << "threads can not be forbidden here";
  EXPECT_EQ(WEXITSTATUS(status), kAsExpected);
}

}  // namespace
}  // namespace executorch_tensorrt::test
