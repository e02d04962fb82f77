"""Starts the competitors, each as a process of its own on the server cores."""

import itertools
import json
import socket
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import paths
from benchmarks.peers.client import Client
from benchmarks.peers.placement import Placement
from benchmarks.peers.processes import Pinned
from benchmarks.peers.work import Answers, Done, RealLoad, SameWork

_CHILD_START_SECONDS = 180.0
_VLLM_START_SECONDS = 480.0  # it compiles
_SLOWEST_TOKENS_PER_SECOND = 5.0
_VLLM_MODULE = "vllm.entrypoints.openai.api_server"  # the `vllm` command looks for a distribution of that name
_VLLM_MODEL = "benchmark"


@dataclass(frozen=True)
class Child:
    """A competitor that is asked through a pipe: our engine without servers, transformers."""

    process: Pinned

    @classmethod
    def start(cls, module: str, checkpoint: Path, *, placement: Placement, rows: int) -> "Child":
        """Run one of our child modules."""
        arguments = [str(checkpoint), str(placement.threads), str(rows)]
        return cls(_start_child(module, arguments, placement=placement))

    @property
    def pid(self) -> int:
        """Of the child."""
        return self.process.pid

    def same_work(self, work: SameWork) -> Done:
        """See `Worker`."""
        patience = _CHILD_START_SECONDS + len(work.prompts) * work.tokens / _SLOWEST_TOKENS_PER_SECOND
        return Done.model_validate(self.process.ask({"same_work": work.model_dump()}, seconds=patience))

    def real_load(self, load: RealLoad) -> Answers:
        """See `Server`."""
        tokens = sum(request.max_tokens for request in load.requests)
        patience = load.requests[-1].at + _CHILD_START_SECONDS + tokens / _SLOWEST_TOKENS_PER_SECOND
        return Answers.model_validate(self.process.ask({"real_load": load.model_dump()}, seconds=patience))

    def stop(self) -> None:
        """End it."""
        self.process.stop()


@dataclass(frozen=True)
class HttpServer:
    """A competitor that is asked over HTTP: our serving path, vLLM's server."""

    process: Pinned
    client: Client

    @property
    def pid(self) -> int:
        """Of the process that started the others."""
        return self.process.pid

    def same_work(self, work: SameWork) -> Done:
        """See `Worker`."""
        return self.client.same_work(work)

    def real_load(self, load: RealLoad) -> Answers:
        """See `Server`."""
        return self.client.real_load(load)

    def stop(self) -> None:
        """End it."""
        self.process.stop()


def start_engine(checkpoint: Path, *, placement: Placement, rows: int) -> Child:
    """Our engine alone."""
    return Child.start("engine_child", checkpoint, placement=placement, rows=rows)


def start_transformers(checkpoint: Path, *, placement: Placement, rows: int) -> Child:
    """transformers' `generate()`."""
    return Child.start("transformers_child", checkpoint, placement=placement, rows=rows)


def start_served(checkpoint: Path, *, placement: Placement, rows: int) -> HttpServer:
    """Our engine behind Triton and the gateway."""
    folder = paths.RUN / "served"
    process = Pinned.start(
        "served",
        _module("served_child", str(checkpoint), str(placement.threads), str(rows), str(folder)),
        placement=placement,
    )
    answer = _ready(process)
    return HttpServer(process, Client(url=answer["url"], model=answer["model"]))


def start_vllm(checkpoint: Path, *, placement: Placement, rows: int) -> HttpServer:
    """vLLM's OpenAI server."""
    port = _free_port()
    options = {
        "--model": str(checkpoint),
        "--served-model-name": _VLLM_MODEL,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": "float32",
        "--max-model-len": "1024",
        "--max-num-seqs": str(rows),
        "--limit-mm-per-prompt": '{"image":0,"video":0,"audio":0}',
    }
    process = Pinned.start(
        "vllm",
        [str(paths.VLLM_ENVIRONMENT / "bin" / "python"), "-m", _VLLM_MODULE, *itertools.chain(*options.items())],
        placement=placement,
        environment={
            "VLLM_CPU_OMP_THREADS_BIND": placement.server_list,
            "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_CACHE_ROOT": str(paths.BENCH / "vllm-cache"),
        },
        speaks_lines=False,
    )
    try:
        process.wait_until(
            lambda: _answers(f"http://127.0.0.1:{port}/health"), what="health", seconds=_VLLM_START_SECONDS
        )
    except BaseException:
        process.stop()
        raise
    client = Client(url=f"http://127.0.0.1:{port}/v1", model=_VLLM_MODEL, extra={"ignore_eos": True}, counts_end=True)
    return HttpServer(process, client)


def _start_child(module: str, arguments: Sequence[str], *, placement: Placement) -> Pinned:
    process = Pinned.start(module, _module(module, *arguments), placement=placement)
    _ready(process)
    return process


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.peers.{name}", *arguments]


def _ready(process: Pinned) -> dict[str, Any]:
    """What a child says when it can work; without such a child running on."""
    try:
        said: dict[str, Any] = json.loads(process.read_line(what="readiness", seconds=_CHILD_START_SECONDS))
    except BaseException:
        process.stop()
        raise
    return said


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 (loopback)
            return bool(response.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        port: int = any_free.getsockname()[1]
        return port
