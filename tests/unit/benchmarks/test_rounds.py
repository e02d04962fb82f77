"""Rounds: interleaved, kept, and measured again when anything has changed."""

from hashlib import sha256
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks import paths
from benchmarks.load import Load, LoadGuard, Measured
from benchmarks.peers import rounds
from benchmarks.peers.rounds import Part
from benchmarks.peers.work import Done


class Fake:
    """A competitor that counts its runs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.runs = 0

    def run(self) -> Done:
        self.runs += 1
        return Done(tokens=self.pid, seconds=float(self.runs))

    def stop(self) -> None:
        """Nothing runs."""


class Quiet(LoadGuard):
    """A machine on which nothing else happens; remembers who was measured."""

    def run(self, name, action, *, roots=()):  # type: ignore[no-untyped-def, override]
        self.order.append((name, *roots))
        return Measured(action(), Load(others=0.01, stolen=0.0), disturbed=False, cpu_seconds=0.5)

    order: ClassVar[list[tuple[object, ...]]] = []


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "ROUNDS", tmp_path)
    monkeypatch.setattr(rounds, "fingerprint", lambda conditions: sha256("|".join(conditions).encode()).hexdigest())
    Quiet.order.clear()


def part(runs: int = 3, **conditions: object) -> Part[Done]:
    return Part("part", Done, runs=runs, conditions=conditions)


def measured(part: Part[Done], **fakes: Fake) -> list[tuple[object, ...]]:
    part.measure(fakes, Fake.run, guard=Quiet())
    return Quiet.order


def test_competitors_take_turns_and_only_their_own_processes_count_as_theirs() -> None:
    assert measured(part(2), a=Fake(11), b=Fake(12)) == [
        ("part a", 11),
        ("part b", 12),
        ("part b", 12),
        ("part a", 11),
    ]


def test_all_runs_of_a_competitor_are_found() -> None:
    done = part(3)
    measured(done, a=Fake(1), b=Fake(2))
    assert [run.result.seconds for run in done.done.of("a")] == [1.0, 2.0, 3.0]
    assert done.is_complete


def test_an_interrupted_part_goes_on_after_its_last_whole_round() -> None:
    class Interrupted(Fake):
        def run(self) -> Done:
            if self.runs == 1:
                raise KeyboardInterrupt
            return super().run()

    with pytest.raises(KeyboardInterrupt):
        part().measure({"a": Fake(1), "b": Interrupted(2)}, lambda fake: fake.run(), guard=Quiet())
    again = part()
    assert len(again.done.rounds) == 1
    fake = Fake(1)
    measured(again, a=fake, b=Fake(2))
    assert fake.runs == 2


def test_rounds_of_other_conditions_or_code_do_not_count() -> None:
    measured(part(rate=16), a=Fake(1))
    assert part(rate=16).is_complete
    assert not part(rate=8).done.rounds


def test_rounds_in_a_form_that_is_no_longer_known_do_not_count() -> None:
    measured(part(), a=Fake(1))
    (file,) = paths.ROUNDS.iterdir()
    file.write_text('{"fingerprint": "", "rounds": [{"a": {"tokens": 1}}]}')
    assert not part().done.rounds


def test_what_is_forgotten_is_measured_again() -> None:
    measured(part(), a=Fake(1))
    again = part()
    again.forget()
    assert not again.is_complete
    assert not part().done.rounds
