"""The detector of code and maths, measured. docs/routing.md has the numbers of the half that it was not made with."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from diffusion_gateway.workload import Workload, detect

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Labelled:
    text: str
    label: Workload
    half: str
    hard: bool


def read() -> list[Labelled]:
    lines = (ROOT / "tests/data/workloads.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [Labelled(row["text"], Workload(row["label"]), row["half"], row.get("hard", False)) for row in rows]


LABELLED = read()


@dataclass(frozen=True)
class Measured:
    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed)


def measure(kind: Workload, half: str) -> Measured:
    guessed = [(row.label, detect(row.text)) for row in LABELLED if row.half == half]
    return Measured(
        right=sum(label == guess == kind for label, guess in guessed),
        wrong=sum(guess == kind != label for label, guess in guessed),
        missed=sum(label == kind != guess for label, guess in guessed),
    )


def test_the_set_is_large_varied_and_split_in_two() -> None:
    assert len(LABELLED) >= 300
    assert len({row.text for row in LABELLED}) == len(LABELLED)
    for half in ("tuning", "held_out"):
        of_half = [row for row in LABELLED if row.half == half]
        assert all(sum(row.label == kind for row in of_half) >= 50 for kind in Workload)
        assert sum(row.hard for row in of_half) >= 50


# Sending a story to AR costs little; a missed one gets a worse answer. Either way nobody is refused. So precision comes first.
@pytest.mark.parametrize(
    ("kind", "half", "precision", "recall"),
    [
        (Workload.CODE, "tuning", 0.97, 0.93),
        (Workload.MATH, "tuning", 0.97, 0.93),
        (Workload.CODE, "held_out", 0.95, 0.85),
        (Workload.MATH, "held_out", 0.95, 0.72),
    ],
)
def test_precision_and_recall_hold_their_floors(kind: Workload, half: str, precision: float, recall: float) -> None:
    measured = measure(kind, half)
    assert measured.precision >= precision
    assert measured.recall >= recall


@pytest.mark.parametrize("kind", [Workload.CODE, Workload.MATH])
def test_the_page_tells_the_numbers_of_the_half_that_was_held_out(kind: Workload) -> None:
    measured = measure(kind, "held_out")
    page = (ROOT / "docs/routing.md").read_text()
    assert f"| {kind} | {measured.precision:.2f} | {measured.recall:.2f} |" in page


def test_only_the_ends_of_a_long_prompt_are_looked_at() -> None:
    code = "def add(a, b):\n    return a + b\n"
    prose = "The harbour was quiet that evening, and nobody spoke.\n" * 100
    assert detect(code + prose) == Workload.CODE
    assert detect(prose + code) == Workload.CODE
    assert detect(prose + code + prose) == Workload.GENERAL


@pytest.mark.parametrize("text", ["", " ", "\0", "\n" * 10_000, "((((" * 5_000, "1+" * 5_000, "a\ud800b", "=" * 9_999])
def test_any_text_has_an_answer(text: str) -> None:
    assert detect(text) in Workload


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1,",
        "1 ",
        "$1",
        "1 how many ",
        "\n",
        " \n",
        "\t",
        ";\n \n",
        "{\n",
        "select from ",
        "write a ",
        "import a\n",
        "def a:\n",
        "x(",
    ],
)
def test_no_prompt_holds_up_the_other_requests(piece: str) -> None:
    """The gateway guesses between two requests of others: what takes seconds here would be an outage."""
    prompt = (piece * 2000)[:2000]
    before = time.thread_time()
    detect(prompt)
    assert (
        time.thread_time() - before < 0.25
    )  # of computing, not of waiting; usual are a few milliseconds, and a page of digits took 20 s
