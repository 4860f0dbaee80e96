"""examples/ray_serve on a local Ray, through the CPU fallback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[serve]'")
serve = pytest.importorskip(
    "ray.serve", reason="Ray Serve is not installed: pip install '.[serve]'"
)

EXAMPLE = Path(__file__).parents[1] / "examples" / "ray_serve"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two replicas of the server, and where they listen."""
    pte = tmp_path_factory.mktemp("served") / "model.pte"
    subprocess.run([sys.executable, EXAMPLE / "export_classifier.py", pte], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    environment = {"PYTHONPATH": str(EXAMPLE), "RAY_USAGE_STATS_ENABLED": "0"}
    sys.path.insert(0, str(EXAMPLE))
    try:
        from server import app

        ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": environment})
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(app({"pte": str(pte), "replicas": "2"}))
        yield f"http://127.0.0.1:{port}"
    finally:
        sys.path.remove(str(EXAMPLE))
        serve.shutdown()
        ray.shutdown()


def classify(rows: Any) -> list[dict[str, Any]]:
    """The answers to rows that are sent all at once."""
    handle = serve.get_app_handle("default")
    return [answer.result(timeout_s=60) for answer in [handle.classify.remote(row) for row in rows]]


def post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_requests_that_come_together_are_answered_right_in_batches(url: str) -> None:
    import torch
    from export_classifier import classifier
    from shapes import FEATURES, MAX_BATCH

    rows = torch.randn(200, FEATURES, generator=torch.Generator().manual_seed(0))
    answers = classify(rows.numpy())
    given = torch.tensor([answer["probabilities"] for answer in answers])
    torch.testing.assert_close(given, classifier()(rows), atol=1e-5, rtol=1e-5)
    largest = max(answer["batch"] for answer in answers)
    assert 1 < largest <= MAX_BATCH
    for answer in answers:
        assert answer["profile"] == ("single" if answer["batch"] == 1 else "batch")


def test_a_request_alone_runs_in_the_profile_for_one(url: str) -> None:
    answer = post(url, {"row": [0.5] * 16})
    assert (answer["profile"], answer["batch"]) == ("single", 1)
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"row": [0.5] * 3}, "row has shape [3], not [16]"),
        ({"rows": []}, 'send {"row": [16 numbers]}'),
        ({"row": ["a"] * 16}, 'send {"row": [16 numbers]}'),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(url: str, body: Any, message: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(url, body)
    assert refused.value.code == 400
    assert message in json.load(refused.value)["error"]
