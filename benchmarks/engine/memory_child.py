"""The process whose memory is measured: `python -m benchmarks.engine.memory_child`, cases in, bytes out, a line of JSON each.

The kernel knows the most memory that a process has had at once, and lets it be reset. glibc is told (see `memory`) to give freed memory back
at once, so that this is what was in use, by whatever code, and not what the allocator kept.
"""

import ctypes
import gc
import json
import re
import sys
from pathlib import Path

from diffusion_worker.config import SamplerConfig
from diffusion_worker.engine import Engine
from diffusion_worker.wire import GenerateRequest

from benchmarks import paths
from benchmarks.engine.drive import answer, open_engine

_STATUS = Path("/proc/self/status")
_RESET_PEAK = "5"
_TOKEN = 300  # any that is no special one


def peak_bytes(*, rows: int, prompt: int, tokens: int) -> int:
    """The most that answering `rows` such requests at once needs beyond the loaded model."""
    engine = open_engine(paths.SAME_WORK_CHECKPOINT, rows=rows, sampler=SamplerConfig(max_denoising_steps=2))
    try:
        _answer(1, prompt=1, tokens=1, engine=engine)  # what is made once, with the first request
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        before = _kilobytes("VmRSS")
        _answer(rows, prompt=prompt, tokens=tokens, engine=engine)
        return (_kilobytes("VmHWM") - before) * 1024
    finally:
        engine.close(drain=False)


def _answer(rows: int, *, prompt: int, tokens: int, engine: Engine) -> None:
    requests = [
        GenerateRequest(request_id=str(row), prompt_token_ids=[_TOKEN + row] * prompt, max_tokens=tokens, seed=row)
        for row in range(rows)
    ]
    answer(engine, requests)


def _kilobytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{_STATUS} has no {name}")
    return int(found[1])


def main() -> None:
    """One answer for each case."""
    for line in sys.stdin:
        print(json.dumps(peak_bytes(**json.loads(line))), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
