"""``python -m executorch_tensorrt --cmake-dir``: where the C++ parts are installed."""

import argparse
import os

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
    """Print what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m executorch_tensorrt", description=__doc__)
    parser.add_argument(
        "--cmake-dir",
        action="store_true",
        required=True,
        help="print the folder of the CMake package, for -Dexecutorch_tensorrt_DIR=",
    )
    parser.parse_args()
    try:
        print(cmake_dir())
    except FileNotFoundError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
