"""Where a figure was measured: processor, system, versions, commit."""

import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.errors import BenchmarkError

REPOSITORY = Path(__file__).resolve().parents[1]
_GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """Facts without which a figure says little."""

    processor: str
    instruction_sets: tuple[str, ...]  # those that matrix products use, as far as this processor has them
    cores: int
    memory_gib: float
    system: str
    python: str
    commit: str
    measured_at: str  # UTC

    @classmethod
    def here(cls) -> "Machine":
        """This machine, now."""
        cpu = dict(_fields(Path("/proc/cpuinfo").read_text()))
        flags = set(cpu.get("flags", "").split())
        return cls(
            processor=cpu.get("model name", platform.machine()),
            instruction_sets=tuple(name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags),
            cores=os.cpu_count() or 1,
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB, 1),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            commit=_commit(),
            measured_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )


def require_cores(count: int) -> None:
    """BenchmarkError on a machine that has fewer cores, or lends fewer to this process."""
    lent = len(os.sched_getaffinity(0))
    if lent < count:
        raise BenchmarkError(
            f"the benchmarks need {count} cores, one of them for what is measured alone, but have {lent}"
        )


def versions(names: Iterable[str]) -> dict[str, str]:
    """Installed versions in this environment."""
    return {name: version(name) for name in names}


def _fields(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def _commit() -> str:
    """The commit, with `+` when the working tree differs from it; `unknown` outside a git checkout."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}+" if changed else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(REPOSITORY), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()
