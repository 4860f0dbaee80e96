"""MODULE.bazel as Bazel 4 can read it: a WORKSPACE over the same repositories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STANDINS = Path(__file__).with_name("standins")
DEBIAN = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "rules_java": "/usr/share/bazel/rules/java",  # Bazel 4's own tools load it
}
BUILT_IN = {"platforms"}


class Extension:
    """A module extension: what is asked of it is not needed here, the stand-ins have it."""

    def __getattr__(self, tag: str) -> Any:
        return lambda **_: None


def read_module(path: Path) -> tuple[str, list[str], list[dict[str, Any]]]:
    """The module's name, what it depends on, and the repositories of `sdk`, by their attributes.

    MODULE.bazel is Python as far as its syntax goes; any other function in it is an error here.
    """
    module: dict[str, str] = {}
    repositories: list[str] = []
    sdks: list[dict[str, Any]] = []

    def use_repo_rule(file: str, name: str) -> Any:
        assert (file, name) == ("//bazel:sdk.bzl", "sdk"), (file, name)
        return lambda **attributes: sdks.append(attributes)

    names = {
        "module": module.update,
        "bazel_dep": lambda name, version: repositories.append(name),
        "use_extension": lambda *_: Extension(),
        "use_repo": lambda _, *names: repositories.extend(names),
        "use_repo_rule": use_repo_rule,
        "True": True,
    }
    exec(compile(path.read_text(), str(path), "exec"), {"__builtins__": {}, **names})
    return module["name"], repositories, sdks


def workspace_file(module: Path) -> str:
    """The WORKSPACE for Bazel 4."""
    name, repositories, sdks = read_module(module)
    lines = [f'workspace(name = "{name}")']
    for repository in [*repositories, "rules_java", "remote_coverage_tools"]:
        if repository in BUILT_IN:
            continue
        path = DEBIAN.get(repository, str(STANDINS / repository))
        lines.append(f'local_repository(name = "{repository}", path = "{path}")')
    lines.append('load("//bazel:sdk.bzl", "sdk")')
    for attributes in sdks:
        arguments = ", ".join(f"{key} = {value!r}" for key, value in attributes.items())
        lines.append(f"sdk({arguments})")
    return "\n".join(lines) + "\n"
