"""Builds and tests the BUILD files with the Bazel that Debian has, and packs the release.

    python tools/bazel_check/check.py [--once] [<folder for the release tarball> = dist]

Debian's Bazel is 4.2.3; MODULE.bazel is for Bazel 8. So a copy of the sources gets a WORKSPACE
made from MODULE.bazel, with stand-ins for the rules that Bazel 8 would fetch: it shows that the
BUILD files' targets, sources, dependencies and packages are right. Nothing is downloaded. Builds
twice, in two places, and compares the tarballs, unless --once.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from module_file import workspace_file

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "bazel"
PACKAGES = ["bazel-bootstrap", "bazel-rules-java", "bazel-skylib", "libgtest-dev"]
# The stand-ins' own BUILD files are packages of other repositories.
LEFT_OUT = "tools/bazel_check/"


def find_bazel() -> str | None:
    """bazel-4, installed if that can be done without asking."""
    bazel = shutil.which("bazel-4")
    if bazel is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES]
        if subprocess.run(install, check=False).returncode != 0:
            subprocess.run(["apt-get", "update", "-q"], check=False)
            subprocess.run(install, check=False)
        bazel = shutil.which("bazel-4")
    return bazel


def source_files() -> list[str]:
    """What git tracks or would, as paths from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [f for f in sorted(set(listed.split("\0"))) if f and not f.startswith(LEFT_OUT)]


def copy_sources(workspace: Path) -> None:
    """Makes `workspace` a copy of the sources, with a WORKSPACE."""
    shutil.rmtree(workspace, ignore_errors=True)
    for name in source_files():
        source, target = ROOT / name, workspace / name
        if not os.path.lexists(source):
            continue  # deleted, not yet committed
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    (workspace / "WORKSPACE").write_text(workspace_file(ROOT / "MODULE.bazel"))


class Bazel:
    """Bazel over a workspace of its own below build/bazel."""

    def __init__(self, bazel: str, name: str) -> None:
        self.folder = WORK / name
        self.workspace = self.folder / "src"
        self.startup = [bazel, f"--output_user_root={self.folder / 'out'}"]
        self.startup += ["--nohome_rc", "--noworkspace_rc", "--max_idle_secs=60"]

    def __call__(self, command: str, *arguments: str) -> None:
        # The tests' interpreter is this one, which has pytest; what is linked is its ExecuTorch.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        options = ["--experimental_repository_disable_download", "--noshow_progress", "--color=no"]
        if command in ("build", "test"):
            options += [
                "--nosandbox_debug",
                "--compilation_mode=opt",
                f"--action_env=PATH={path}",
                "--test_output=errors",
            ]
        done = subprocess.run(
            [*self.startup, command, *(options if command != "shutdown" else []), *arguments],
            cwd=self.workspace,
            env={**os.environ, "PATH": path},
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"bazel {command} {' '.join(arguments)} failed")

    def release(self) -> Path:
        (tarball,) = (self.workspace / "bazel-bin").glob("executorch_tensorrt-*.tar.gz")
        return tarball


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--once", action="store_true", help="do not build a second time")
    arguments = parser.parse_args()
    found = find_bazel()
    if found is None:
        print(f"SKIPPED: no bazel-4 here. On Debian 12: apt-get install {' '.join(PACKAGES)}")
        return

    bazel = Bazel(found, "first")
    copy_sources(bazel.workspace)
    bazel("build", "//...")
    bazel("test", "//...")
    tarball = bazel.release()
    if not arguments.once:
        again = Bazel(found, "again")
        copy_sources(again.workspace)
        again("clean")
        again("build", "//:release")
        if digest(again.release()) != digest(tarball):
            raise SystemExit(f"two builds differ: {tarball} and {again.release()}")
        again("shutdown")
    arguments.output.mkdir(parents=True, exist_ok=True)
    copied = Path(shutil.copy(tarball, arguments.output))
    print(f"{copied}: {copied.stat().st_size} bytes, SHA-256 {digest(copied)}")


if __name__ == "__main__":
    main()
