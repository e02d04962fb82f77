"""Starts Triton, ends it in good order when asked to, and at once when it has become useless.

Runs as PID 1 of the worker's container: it reaps whatever is left to it.
"""

import contextlib
import logging
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from diffusion_worker.sources import resolve_source
from diffusion_worker.triton import heartbeat, refusal
from diffusion_worker.triton.installation import Triton, find_triton
from diffusion_worker.triton.processes import children_of
from diffusion_worker.triton.repository import Repository, make_repository, read_config
from diffusion_worker.triton.watch import Watch

EXIT_USELESS = 70  # EX_SOFTWARE: Triton had to be killed
EXIT_REFUSED = 3  # the model takes more memory than it may
_LOOK_SECONDS = 0.5
_KILL_AFTER_SECONDS = (
    5  # on top of Triton's own exit timeout, which it does not keep when streams are open or a stub is dead
)
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (Triton's choice)
_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
_SIGNALS = _STOP_SIGNALS | {signal.SIGCHLD}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServeOptions:
    """What `diffusion-worker serve` was asked to do."""

    config: Path
    repository: Path
    cache: Path  # of downloaded checkpoints
    address: str = "0.0.0.0"  # noqa: S104 (a pod's own address is not known in advance)
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    exit_timeout_seconds: int = 300
    hang_seconds: float = 120.0

    @property
    def shared_memory_prefix(self) -> str:
        """Of Triton's regions in /dev/shm; one per server, so that a server sweeps only its own."""
        return f"dlm-{self.grpc_port}-"


def serve(options: ServeOptions) -> int:
    """Run a worker until it is told to end. Returns its exit code; raises LaunchError when it cannot start."""
    for number in _STOP_SIGNALS:
        signal.signal(number, _exit_now)
    config = resolve_source(read_config(options.config), cache=options.cache)
    triton = find_triton()
    repository = make_repository(options.repository, config=config, config_folder=options.config, triton=triton)
    _sweep_shared_memory(options)
    _log.info("serving %s revision %s (%s) from %s", config.model, config.revision, config.kind, config.path)
    asked: list[int] = []
    for number in _STOP_SIGNALS:
        # Threads that a download left behind do not block them: what the kernel gives to such a thread ends up here.
        signal.signal(number, lambda number, _frame: asked.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # taken one by one in the loop below
    server = _start(triton, repository, options, threads=config.threads)
    try:
        return _supervise(server, repository, options, asked)
    finally:
        _sweep_shared_memory(options)


def _exit_now(number: int, _frame: object) -> None:
    """Before Triton runs there is nothing to end in order. An exception would wait for the threads of a download."""
    os._exit(128 + number)


def _start(triton: Triton, repository: Repository, options: ServeOptions, *, threads: int) -> int:
    environment = triton.environment(os.environ) | {
        heartbeat.VARIABLE: str(repository.heartbeat),
        refusal.VARIABLE: str(repository.refusal),
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    return os.posix_spawn(
        triton.server,
        _command(triton, repository, options),
        environment,
        setpgroup=0,  # Ctrl-C reaches the launcher alone
        setsigmask=(),
    )


def _command(triton: Triton, repository: Repository, options: ServeOptions) -> list[str]:
    # Loading a model through the API is running code. Nobody needs these APIs, so nobody gets the key.
    restricted = f"model-repository,logging,trace,shared-memory:key={os.urandom(16).hex()}"
    return [
        str(triton.server),
        f"--model-repository={repository.models}",
        f"--backend-directory={repository.backends}",
        f"--backend-config=python,shm-region-prefix-name={options.shared_memory_prefix}",
        f"--http-address={options.address}",
        f"--http-port={options.http_port}",
        f"--grpc-address={options.address}",
        f"--grpc-port={options.grpc_port}",
        f"--metrics-address={options.address}",
        f"--metrics-port={options.metrics_port}",
        f"--exit-timeout-secs={options.exit_timeout_seconds}",
        f"--allow-gpu-metrics={'true' if Path('/dev/nvidiactl').exists() else 'false'}",
        f"--http-restricted-api={restricted}",
        f"--grpc-restricted-protocol={restricted}",
    ]


def _supervise(server: int, repository: Repository, options: ServeOptions, asked: list[int]) -> int:
    """Watch Triton to its end; `asked` gets the signals that ask for it, as they come."""
    watch = Watch(hang_seconds=options.hang_seconds)
    kill_at: float | None = None
    has_listened = False
    while True:
        event = signal.sigtimedwait(_SIGNALS, _LOOK_SECONDS)
        now = time.monotonic()
        exit_code = _reap(server)
        if exit_code is not None:
            draining = kill_at is not None
            refused = refusal.read(repository.refusal)
            if refused is not None and not draining:
                _log.error("the model cannot be served: %s", refused)
                refusal.tell_kubernetes(refused)
                return EXIT_REFUSED
            _log.info("Triton has ended with code %d%s", exit_code, "" if draining else " without being asked to")
            return exit_code if draining or exit_code != 0 else 1
        if event is not None and event.si_signo in _STOP_SIGNALS:
            asked.append(event.si_signo)
        if asked and kill_at is None:
            _log.info("%s: draining for up to %d s", signal.Signals(asked[0]).name, options.exit_timeout_seconds)
            os.kill(server, signal.SIGTERM)
            kill_at = now + options.exit_timeout_seconds + _KILL_AFTER_SECONDS
        tick = heartbeat.read_tick(repository.heartbeat)
        has_listened = has_listened or _listens(options)
        wrong = watch.look(
            children=children_of(server),
            last_tick_age=None if tick is None else now - tick,
            has_listened=has_listened or kill_at is not None,  # one that drains closes them
            now=now,
        )
        if wrong is None and kill_at is not None and now > kill_at:
            wrong = "Triton has not ended in time"
        if wrong is not None:
            _log.error("%s: killing Triton", wrong)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server, signal.SIGKILL)
            os.waitpid(server, 0)
            return EXIT_USELESS


def _listens(options: ServeOptions) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.address, options.address)  # noqa: S104 (any of ours will do)
    try:
        socket.create_connection((host, options.http_port), timeout=_LOOK_SECONDS).close()
    except OSError:
        return False
    return True


def _reap(server: int) -> int | None:
    """Reap every child that has ended; the server's exit code if it is one of them."""
    exit_code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == server:
                code = os.waitstatus_to_exitcode(status)
                exit_code = code if code >= 0 else 128 - code
    return exit_code


def _sweep_shared_memory(options: ServeOptions) -> None:
    for region in _SHARED_MEMORY.glob(f"{options.shared_memory_prefix}*"):
        with contextlib.suppress(OSError):
            region.unlink()
