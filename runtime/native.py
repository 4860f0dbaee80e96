"""The native module, or an error that says what to do."""

import ctypes
import importlib.util
import os


def _load_executorch() -> None:
    """Load ExecuTorch's libraries from wherever the package is.

    The native module looks for them beside itself, which is not where they are when the two
    packages were installed to different folders; a library that is loaded is not looked for.
    """
    spec = importlib.util.find_spec("executorch")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("", "_etdump", "_threadpool", "_kernels_optimized", "_backend_xnnpack"):
            path = os.path.join(folder, "lib", f"libexecutorch{name}.so")
            if os.path.exists(path):
                ctypes.CDLL(path)


try:
    _load_executorch()
    from . import _runtime
except (ImportError, OSError) as error:
    raise ImportError(
        "executorch_tensorrt's native library could not be loaded. It is built against "
        "executorch 1.5: see that `pip show executorch` says so, and install "
        f"executorch-tensorrt again ({error})"
    ) from error

__all__ = ["_runtime"]
