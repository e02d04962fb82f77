"""Measures competitors round by round, and keeps what is measured, so that an interrupted benchmark goes on where it was."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmarks import machine, paths
from benchmarks.load import LoadGuard
from benchmarks.measure import interleaved
from benchmarks.peers.work import Contestant
from benchmarks.progress import say

C = TypeVar("C", bound=Contestant)
R = TypeVar("R", bound=BaseModel)


class Run(BaseModel, Generic[R]):
    """One measurement of one competitor, what it took in CPU time, and the load beside it in cores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    result: R
    cpu_seconds: float
    others: float
    stolen: float
    disturbed: bool


class Rounds(BaseModel, Generic[R]):
    """In each round every competitor ran once, in an order that changes from round to round."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fingerprint: str
    rounds: tuple[dict[str, Run[R]], ...] = ()

    def of(self, name: str) -> list[Run[R]]:
        """All runs of one competitor."""
        return [done[name] for done in self.rounds]


class Part(Generic[R]):
    """A part of the benchmark, and its file of finished rounds."""

    def __init__(self, name: str, kind: type[R], *, runs: int, conditions: Mapping[str, object]) -> None:
        """`conditions` is everything that a figure depends on besides code and checkpoints: other conditions, other rounds."""
        self.name = name
        self._runs = runs
        self._model = Rounds[kind]  # type: ignore[valid-type]
        self._fingerprint = fingerprint([name, *sorted(map(repr, conditions.items()))])
        self._file = paths.ROUNDS / f"{name}-{self._fingerprint[:12]}.json"
        self.done: Rounds[R] = self._kept()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to measure."""
        return len(self.done.rounds) >= self._runs

    def measure(self, contestants: Mapping[str, C], action: Callable[[C], R], *, guard: LoadGuard) -> Rounds[R]:
        """Run the rounds that are missing. A round that is broken off is not kept."""
        order = interleaved(list(contestants), runs=self._runs)
        size = len(contestants)
        while not self.is_complete:
            number = len(self.done.rounds)
            finished: dict[str, Run[R]] = {}
            for name in order[number * size : (number + 1) * size]:
                contestant = contestants[name]
                measured = guard.run(
                    f"{self.name} {name}",
                    partial(action, contestant),
                    roots=[contestant.pid],
                )
                load = measured.load
                say(f"{self.name}, round {number + 1} of {self._runs}: {name}: {measured.result} ({load})")
                finished[name] = Run(
                    result=measured.result,
                    cpu_seconds=measured.cpu_seconds,
                    others=load.others,
                    stolen=load.stolen,
                    disturbed=measured.disturbed,
                )
            self.done = Rounds(fingerprint=self._fingerprint, rounds=(*self.done.rounds, finished))
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(self.done.model_dump_json())
        return self.done

    def _kept(self) -> Rounds[R]:
        fresh: Rounds[R] = Rounds(fingerprint=self._fingerprint)
        if not self._file.exists():
            return fresh
        try:
            kept: Rounds[R] = self._model.model_validate_json(self._file.read_text())
        except ValidationError:  # of another version of this code
            return fresh
        if kept.fingerprint != self._fingerprint:
            return fresh
        rounds = kept.rounds[: self._runs]
        if rounds:
            say(f"{self.name}: {len(rounds)} of {self._runs} rounds were measured before; --fresh measures them again")
        return Rounds(fingerprint=self._fingerprint, rounds=rounds)

    def forget(self) -> None:
        """Measure everything again."""
        self._file.unlink(missing_ok=True)
        self.done = Rounds(fingerprint=self._fingerprint)


def fingerprint(conditions: Sequence[str]) -> str:
    """Of the conditions and of all code and weights that run in a measurement."""
    digest = hashlib.sha256("\n".join(conditions).encode())
    folders = [machine.REPOSITORY / "worker", machine.REPOSITORY / "benchmarks" / "peers"]
    for file in sorted(_sources(folders)):
        digest.update(file.read_bytes())
    digest.update((paths.STORYTELLER / "model.safetensors").read_bytes())
    return digest.hexdigest()


def _sources(folders: Iterable[Path]) -> list[Path]:
    return [file for folder in folders for file in folder.rglob("*.py")]
