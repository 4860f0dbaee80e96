"""Programs and processes that fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Each prints "right" at its end. A child ends as a script does, by way of the interpreter's exit.
HEAD = """
import os, sys, threading, time
import numpy as np
import executorch_tensorrt as ett
pte = open(sys.argv[1], "rb").read()
x = np.ones((3, 8), np.float32)

def load():
    return ett.load(pte, device="cpu")["forward"]

def forked(run):
    child = os.fork()
    if child == 0:
        run()
        sys.exit(7)
    for _ in range(300):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(child, 9)
    sys.exit("the child hangs")

def refused(call):
    try:
        call()
    except ett.runtime.TensorRTError as error:
        assert "forked" in str(error) and "spawn" in str(error), error
    else:
        sys.exit("it was not refused")
"""

REFUSED = """
method = load()
(right,) = method(x)
def child():
    refused(lambda: method(x))
    refused(load)
assert forked(child) == 7
assert np.array_equal(method(x)[0], right)
"""

IN_A_CALL = """
method = load()
def calls():
    while True:
        method(x)
threads = [threading.Thread(target=calls, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(10):
    assert forked(lambda: refused(lambda: method(x))) == 7
"""

LOADED_BEHIND = """
def child():
    assert load()(x)[0].shape == (3, 8)
assert forked(child) == 7
assert load()(x)[0].shape == (3, 8)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(REFUSED, id="loaded_before_is_refused_in_the_child_and_right_in_the_parent"),
        pytest.param(IN_A_CALL, id="forked_while_threads_are_in_calls_does_not_hang"),
        pytest.param(LOADED_BEHIND, id="loaded_behind_the_fork_works"),
    ],
)
def test_a_program(script: str, mlp_pte: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mlp.pte"
    path.write_bytes(mlp_pte)
    code = HEAD + script + 'print("right")\n'
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("right\n")
