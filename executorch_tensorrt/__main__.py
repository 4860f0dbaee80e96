"""``executorch-tensorrt``, also as ``python -m executorch_tensorrt``.

``--cmake-dir`` prints where the C++ parts are installed; the commands are in export/cli.
"""

import os
import sys

from . import __path__


def cmake_dir() -> str:
    """The folder of the CMake package, for ``-Dexecutorch_tensorrt_DIR``.

    Raises:
        FileNotFoundError: The package was built without its C++ parts, or is a source tree.
    """
    for package in __path__:  # two in an editable install
        folder = os.path.join(os.path.abspath(package), "lib", "cmake", "executorch_tensorrt")
        if os.path.exists(os.path.join(folder, "executorch_tensorrt-config.cmake")):
            return folder
    raise FileNotFoundError(
        f"no lib/cmake/executorch_tensorrt in {', '.join(__path__)}; `pip install .` installs it"
    )


def main() -> None:
    """The command line; `--cmake-dir` alone does without the packages that the rest needs."""
    if sys.argv[1:2] == ["--cmake-dir"]:
        try:
            print(cmake_dir())
        except FileNotFoundError as error:
            sys.exit(str(error))
        return
    try:
        from ._export.cli.main import main as command_line
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich", "tomli"):
            raise
        sys.exit(
            f"the command line needs {error.name}: pip install 'executorch-tensorrt[cli]' "
            "(--cmake-dir does without)"
        )
    command_line()


if __name__ == "__main__":
    main()
