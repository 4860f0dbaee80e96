"""What the BUILD files share."""

VERSION = "0.1.0"

COPTS = [
    "-std=c++17",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
]

# The backend loads libraries with dlopen and is built for Linux alone.
LINUX = ["@platforms//os:linux"]
