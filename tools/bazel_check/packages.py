"""What the packages hold, read from the BUILD files without Bazel; and whether that is all of it.

BUILD files are Python as far as their syntax goes, so they are run with functions that record what
they are called with.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BUILT_IN_RULES = [
    "alias",
    "config_setting",
    "constraint_setting",
    "constraint_value",
    "filegroup",
    "genrule",
]
# What rules_pkg has beside its rules; neither matters here.
HELPERS = {
    "pkg_attributes": lambda mode: mode,
    "strip_prefix": SimpleNamespace(from_root=lambda: "/"),
}
FOR_ANY_OTHER = "//conditions:default"


class Packages:
    """The targets of a source tree.

    Args:
        root: The tree's folder.
        files: Its files, as paths from the root.
    """

    def __init__(self, root: Path, files: Sequence[str]) -> None:
        self.root = root
        self.files = sorted(files)
        self.folders = {posixpath.dirname(f) for f in files if f.endswith("BUILD.bazel")}
        self.targets: dict[str, dict[str, Any]] = {}
        for folder in sorted(self.folders):
            self._run(folder)

    def _run(self, folder: str) -> None:
        def rule(name: str, **attributes: Any) -> None:
            self.targets[f"//{folder}:{name}"] = {"folder": folder, **attributes}

        def load(file: str, *names: str) -> None:
            if file.startswith("@"):
                scope.update({name: HELPERS.get(name, rule) for name in names})
                return
            loaded: dict[str, Any] = {}
            exec((self.root / file.replace(":", "/").strip("/")).read_text(), loaded)
            scope.update({name: loaded[name] for name in names})

        def glob(include: list[str], exclude: Sequence[str] = ()) -> list[str]:
            return self._glob(folder, include, exclude)

        scope: dict[str, Any] = dict.fromkeys(BUILT_IN_RULES, rule)
        scope.update(load=load, glob=glob, select=lambda branches: branches.get(FOR_ANY_OTHER))
        scope.update(dict.fromkeys(["exports_files", "package"], lambda *_, **__: None))
        path = self.root / folder / "BUILD.bazel"
        exec(compile(path.read_text(), str(path), "exec"), scope)

    def _glob(self, folder: str, include: Sequence[str], exclude: Sequence[str]) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        names = [f[len(prefix) :] for f in self.files if self._package_of(f) == folder]
        return [n for n in names if _matches(n, include) and not _matches(n, exclude)]

    def _package_of(self, file: str) -> str:
        folder = posixpath.dirname(file)
        while folder not in self.folders:
            folder = posixpath.dirname(folder)
        return folder

    def files_of(self, label: str) -> set[str]:
        """The source files that a target is made of, through its srcs, as paths from the root."""
        target = self.targets[label]
        files: set[str] = set()
        for source in target.get("srcs") or ():
            package, _, name = source.rpartition(":") if ":" in source else (None, "", source)
            inner = f"{package or '//' + target['folder']}:{name}"
            if inner in self.targets:
                files |= self.files_of(inner)
            elif package is None:
                files.add(posixpath.join(target["folder"], name))
        return files


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """As Bazel matches: * within one folder, ** over any number."""
    for pattern in patterns:
        expression = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
        if re.fullmatch(expression, name):
            return True
    return False


def sources_named_by_cmake(root: Path, files: Sequence[str]) -> set[str]:
    """Every C++ source that a CMakeLists.txt names, also by a glob.

    Not those of the project under tests/, which is a user's for the package, not part of it.
    """
    named: set[str] = set()
    for lists in files:
        if posixpath.basename(lists) != "CMakeLists.txt" or lists.startswith("tests/"):
            continue
        text = re.sub(r"#.*", "", (root / lists).read_text())
        for pattern in re.findall(r"[\w./*-]+\.cpp\b", text):
            path = posixpath.join(posixpath.dirname(lists), pattern)
            found = fnmatch.filter(files, path) if "*" in path else [path]
            named.update(found)
    return named


def packaging_faults(root: Path, files: Sequence[str]) -> list[str]:
    """One line for each thing that is not packed and should be, or is and should not."""
    packages = Packages(root, files)
    shipped = packages.files_of("//:source_files")
    headers = packages.files_of("//:installed_headers")
    public = {f for f in files if f.startswith("runtime/cpp/include/")}
    named = sources_named_by_cmake(root, files)
    sources = {f for f in shipped if f.endswith(".cpp")}
    # Headers lie beside the sources that include them.
    folders = {posixpath.dirname(f) for f in named}
    private = {f for f in files if f.endswith(".h") and posixpath.dirname(f) in folders}
    examples = {f for f in files if f.startswith("examples/")}
    wanted = named | private | public | examples | {f for f in files if f.startswith("cmake/")}
    return [
        *(f"{f} is not in the source package" for f in sorted(wanted - shipped)),
        *(f"{f} is shipped, but no CMakeLists.txt names it" for f in sorted(sources - named)),
        *(f"{f} is not in the include package" for f in sorted(public - headers)),
        *(f"{f} is in the include package and not public" for f in sorted(headers - public)),
    ]
