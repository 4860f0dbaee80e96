"""The rules that are built into Bazel 4, where rules_python has them."""

py_binary = native.py_binary
py_library = native.py_library
py_test = native.py_test
