#pragma once

#include <gtest/gtest.h>

#include <string>

#include "last_error.h"

namespace executorch_tensorrt::test {

/// Whether the calling thread's last error says `text`.
inline ::testing::AssertionResult last_error_has(const std::string& text) {
  const std::string message = last_error_message();
  if (message.find(text) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' is not in: " << message;
}

}  // namespace executorch_tensorrt::test
