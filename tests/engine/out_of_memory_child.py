"""A process with little memory left, whose steps take more of it the more rows they have: FOLDER of a checkpoint in, codes of ends out."""

import json
import re
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from diffusion_worker.config import EngineConfig, EngineKind
from diffusion_worker.engine.row import Row
from diffusion_worker.models.checkpoint import open_checkpoint
from diffusion_worker.models.diffusion import load_diffusion_model
from diffusion_worker.wire import FinishEvent

from tests.engine.answers import request, running, send
from tests.engine.runners import WatchedRunner, diffusion_runner

_OF_A_ROW = 1 << 30
_LEFT = 5 << 29  # two rows fit, three do not


def _take(rows: Sequence[Row]) -> None:
    """What a large model's step would."""
    torch.empty(len(rows) * _OF_A_ROW, dtype=torch.uint8)


def main(folder: str) -> None:
    """Four requests at once, and then four more."""
    torch.set_num_threads(1)
    config = EngineConfig(kind=EngineKind.DIFFUSION, model="m", revision="0", source=f"file://{folder}", path=folder)
    runner = diffusion_runner(load_diffusion_model(open_checkpoint(config)), max_batch_size=4)
    with running(WatchedRunner(runner, before_step=_take), batch_window_seconds=0.1) as engine:
        (first,) = send(engine, request(seed=1))  # what is made once
        assert first.finish
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        (size,) = re.findall(r"^VmSize:\s+(\d+) kB$", status, re.MULTILINE)
        resource.setrlimit(resource.RLIMIT_AS, (int(size) * 1024 + _LEFT, resource.RLIM_INFINITY))
        ends = []
        for _ in range(2):
            answers = send(engine, *[request(seed=seed, request_id=str(seed)) for seed in range(4)])
            ends.append(["done" if isinstance(each.end, FinishEvent) else each.error.code for each in answers])
        print(json.dumps({"ends": ends, "alive": engine.alive}))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(sys.argv[1])
