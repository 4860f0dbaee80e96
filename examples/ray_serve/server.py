"""Serves a .pte with Ray Serve: serve run server:app pte=model.pte replicas=1

A replica is a process; where there are GPUs, each has one. In a replica several batches run at
once, each on a program of its own: they share one engine, whose weights the GPU holds once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import ray
from ray import serve
from ray.serve import Application
from shapes import FEATURES, MAX_BATCH
from starlette.requests import Request
from starlette.responses import JSONResponse

# How long the first request of a batch waits for others, in seconds.
BATCH_WAIT = 0.005
# Batches that a replica runs at once.
PROGRAMS = 2


@serve.deployment(max_ongoing_requests=2 * PROGRAMS * MAX_BATCH)
class Classifier:
    def __init__(self, pte: str) -> None:
        from executorch_tensorrt import load

        self._free: asyncio.Queue[Any] = asyncio.Queue()
        for _ in range(PROGRAMS):
            forward = load(pte)["forward"]
            for rows in (1, MAX_BATCH):  # each profile once, before the first request
                forward(np.zeros((rows, FEATURES), np.float32))
            self._free.put_nowait(forward)

    @serve.batch(
        max_batch_size=MAX_BATCH,
        batch_wait_timeout_s=BATCH_WAIT,
        max_concurrent_batches=PROGRAMS,
    )
    async def classify(self, rows: list[np.ndarray]) -> list[dict[str, Any]]:
        """One answer a row: the profile is chosen by how many there are."""
        forward = await self._free.get()
        try:
            # In a thread: the execution lets go of the GIL, and requests keep coming in.
            (probabilities,) = await asyncio.to_thread(forward, np.stack(rows))
            profile = forward.last_profile
        finally:
            self._free.put_nowait(forward)
        return [
            {"probabilities": row.tolist(), "profile": profile, "batch": len(rows)}
            for row in probabilities
        ]

    async def __call__(self, request: Request) -> JSONResponse:
        try:
            row = np.asarray((await request.json())["row"], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            return refused(f'send {{"row": [{FEATURES} numbers]}}: {error!r}')
        if row.shape != (FEATURES,):
            return refused(f"row has shape {list(row.shape)}, not [{FEATURES}]")
        return JSONResponse(await self.classify(row))


def refused(why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status_code=400)


def app(args: dict[str, str]) -> Application:
    """What `serve run server:app key=value ...` starts: `pte` and `replicas`."""
    gpus = 1 if ray.cluster_resources().get("GPU", 0) > 0 else 0
    deployment = Classifier.options(
        num_replicas=int(args.get("replicas", 1)), ray_actor_options={"num_gpus": gpus}
    )
    return deployment.bind(args["pte"])
