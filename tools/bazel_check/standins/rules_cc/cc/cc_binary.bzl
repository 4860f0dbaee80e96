"""The rule that is built into Bazel 4, where rules_cc has it."""

cc_binary = native.cc_binary
