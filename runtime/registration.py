"""The backend's registration with ExecuTorch."""

from .native import _runtime


def register() -> None:
    """Make ExecuTorch's runtime in this process know ``TensorRTBackend``.

    Loading the native library does it, once; the stock ``executorch.runtime.Runtime`` sees it too,
    whether it was imported before or after. Calling it again does nothing.

    Raises:
        ImportError: The native library cannot be loaded.
        TensorRTError: ExecuTorch refused, for instance because another backend has the name.
    """
    _runtime.check_registration()
