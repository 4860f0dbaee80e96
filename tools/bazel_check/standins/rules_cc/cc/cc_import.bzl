"""The rule that is built into Bazel 4, where rules_cc has it."""

cc_import = native.cc_import
