// A child of a process that had loaded programs.
#include "fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "last_error.h"

namespace executorch_tensorrt::test {
namespace {

/// What a child of this process, and a child of that, make of it.
bool holds_in_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_refused() {
  return was_forked() && refuse_if_forked() == Error::InvalidState &&
         std::string(last_error_message()).find("behind the fork") != std::string::npos;
}

TEST(ForkTest, AChildOfAProcessThatLoadedIsRefusedAndSoAreItsChildrenButNotTheParent) {
  watch_for_forks();
  watch_for_forks();
  EXPECT_TRUE(holds_in_child(is_refused));
  EXPECT_TRUE(holds_in_child([] { return holds_in_child(is_refused); }));
  EXPECT_FALSE(was_forked());
  EXPECT_EQ(refuse_if_forked(), Error::Ok);
}

}  // namespace
}  // namespace executorch_tensorrt::test
