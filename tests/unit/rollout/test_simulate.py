"""`diffusion-operator simulate`."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from diffusion_operator.shell.cli import main

MANIFEST = """\
apiVersion: serving.diffusion-operator.dev/v1alpha1
kind: DiffusionModel
metadata: {name: storyteller}
spec:
  model: {source: file:///models/storyteller}
  fallback: {model: {source: file:///models/storyteller-ar}}
  scoring: {samplePercent: 100}
  rollout: {initialPercent: 30, stepPercent: 35}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "dm.yaml"
    path.write_text(MANIFEST)
    return path


def simulate(manifest: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["simulate", "-f", str(manifest), "--requests-per-day", "20000", *arguments]) == 0
    return capsys.readouterr().out


ENDS = {"healthy": "promoted", "regressed": "rolled_back", "slow": "rolled_back", "silent": "held"}


@pytest.mark.parametrize(("scenario", "end"), ENDS.items(), ids=ENDS.keys())
def test_each_scenario_ends_as_it_should(
    scenario: str, end: str, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(simulate(manifest, capsys, "--scenario", scenario, "--output", "json"))
    assert found["runs"] == found[end] == 1
    assert (found["days"]["median"] is None) == (end == "held")


def test_noise_neither_rolls_back_nor_hurries(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(simulate(manifest, capsys, "--scenario", "noisy", "--output", "json"))
    assert found["rolled_back"] == 0
    assert found["promoted"] == 0 or found["days"]["median"] > 3


def test_the_same_seed_plays_the_same_rollouts(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, third = (
        simulate(manifest, capsys, "--scenario", "regressed", "--seed", seed) for seed in ("7", "7", "8")
    )
    assert one == other
    assert one != third


def test_effects_can_be_set(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(simulate(manifest, capsys, "--repetition", "0.4", "--runs", "2", "--output", "json"))
    assert found["rolled_back_by"] == {"repetitionRate": 2}
    assert found["rolled_back_at_percent"] == {"30": 2}


def test_one_run_tells_its_story(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = simulate(manifest, capsys)
    assert "RolloutStarted" in told
    assert "goes from 30% to 65%" in told
    assert "100%  Promoted" in told
    assert "Promoted after" in told


def test_a_revision_that_is_promoted_at_once_is_no_proof_of_its_gates(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(simulate(manifest, capsys, "--output", "json"))["notes"] == []
    manifest.write_text(MANIFEST.replace("initialPercent: 30", "initialPercent: 100"))
    (note,) = json.loads(simulate(manifest, capsys, "--scenario", "regressed", "--output", "json"))["notes"]
    assert "initialPercent is 100" in note
    assert f"Note: {note}." in simulate(manifest, capsys, "--scenario", "regressed")


def test_ctrl_c_ends_it_without_a_traceback(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("diffusion_operator.shell.simulate_command.play", interrupted)
    assert main(["simulate", "-f", str(manifest)]) == 130


def test_a_time_that_no_calendar_has_is_refused(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", str(manifest), "--days", "1e9"]) == 2
    assert "--days, goes beyond the year 9999" in capsys.readouterr().err


def test_a_manifest_comes_by_standard_input_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = "".join(f"  {line}\n" for line in MANIFEST.splitlines())
    as_kubectl_lists_it = f"apiVersion: v1\nkind: List\nitems:\n-{items[1:]}"
    for text in (MANIFEST, as_kubectl_lists_it):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert simulate(Path("-"), capsys, "--days", "1").startswith("storyteller: healthy")
    monkeypatch.setattr("sys.stdin", None)
    assert main(["simulate", "-f", "-"]) == 2
    assert "standard input is closed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "code", "says"),
    [("| true", 141, ""), ("> /dev/full", 2, "cannot be written: No space left"), (">&-", 0, "")],
)
def test_an_answer_that_nobody_takes_is_no_traceback(output: str, code: int, says: str, manifest: Path) -> None:
    command = f'"{sys.executable}" -m diffusion_operator simulate -f "{manifest}" --days 1 {output}'
    ended = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert says in ended.stderr
    assert len(ended.stderr.splitlines()) <= 1


def test_a_name_that_is_no_text_is_shown_as_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dm.yaml"
    path.write_text(MANIFEST.replace("name: storyteller", 'name: "\\ud800\\e"'))
    assert simulate(path, capsys, "--days", "1").startswith(r"'\ud800\x1b': healthy")


@pytest.mark.parametrize("duration", ["1ms", "1s"])
def test_steps_shorter_than_a_look_end_too(duration: str, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_text(MANIFEST.replace("stepPercent: 35", f"stepPercent: 35, stepDuration: {duration}"))
    found = json.loads(simulate(manifest, capsys, "--requests-per-day", "1e9", "--output", "json"))
    assert found["promoted"] == 1


EXTREMES = (
    "--pair-deviation=1e12",
    "--latency-ratio=1e-9",
    "--repetition=5e-324",
    "--error-rate=1e-300",
    "--first-token-p95=1e12",
    "--requests-per-day=1e-9",
)


@pytest.mark.parametrize("extreme", EXTREMES)
def test_any_effect_within_bounds_has_an_end_in_json_without_infinities(
    extreme: str, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(simulate(manifest, capsys, extreme, "--output", "json"), parse_constant=pytest.fail)
    assert found["promoted"] + found["rolled_back"] + found["held"] == 1


BAD = {
    "no file": (None, "cannot be read"),
    "no YAML": ("a: [", "is not YAML"),
    "brackets without end": ("[" * 20_000, "is not YAML"),
    "a fault in several lines": ("a: 1\n\t- b", "cannot start any token: look at line 2, column 1\n"),
    "a date that is none": (MANIFEST.replace("{name", "{labels: {on: 2026-02-30}, name"), "write it in quotes"),
    "a number that is none": (MANIFEST + "  replicas: !!int many\n", "write it in quotes"),
    "bytes that are no text": (b"\xff\xfe", "save it so"),
    "something else": ("kind: Pod", "there is none"),
    "two of them": (
        MANIFEST + "---\n" + MANIFEST.replace("name: storyteller", "name: other"),
        "choose one with --name",
    ),
    "two of the same name": (MANIFEST + "---\n" + MANIFEST, "put each in a file of its own"),
    "no spec": (MANIFEST.split("spec:")[0], "has no spec"),
    "a gate that does not exist": (
        MANIFEST.replace("stepPercent: 35", "gates: {toxicity: {max: 1}}"),
        "spec.rollout.gates.toxicity: there is no such field; there are errorRate, latencyRatio",
    ),
    "a value out of range": (MANIFEST.replace("stepPercent: 35", "stepPercent: 0"), "spec.rollout.stepPercent"),
    "a duration that is none": (
        MANIFEST.replace("stepPercent: 35", "stepDuration: 1d"),
        "'1d' is not a duration: write whole numbers",
    ),
    "a limit without end": (
        MANIFEST.replace("stepPercent: 35", "gates: {latencyRatio: {max: .inf}}"),
        "spec.rollout.gates.latencyRatio.max: Input should be a finite number",
    ),
    "no time in a step": (
        MANIFEST.replace("stepPercent: 35", "stepDuration: 0s"),
        "spec.rollout.stepDuration: Value error, '0s' is no time: write a positive duration",
    ),
    "no time to the first token": (
        MANIFEST.replace("stepPercent: 35", "gates: {timeToFirstToken: {p95: 0ms}}"),
        "spec.rollout.gates.timeToFirstToken.p95: Value error, '0ms' is no time",
    ),
    "a step beyond all dates": (
        MANIFEST.replace("stepPercent: 35", "stepDuration: 99999999999999999h"),
        "goes beyond the year 9999",
    ),
    "paused": (MANIFEST.replace("stepPercent: 35", "paused: true"), "set it to false"),
}


@pytest.mark.parametrize(("text", "says"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_told_what_is_bad(
    text: str | bytes | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dm.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["simulate", "-f", str(path)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert str(path) in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--repetition", "15"], "from 0 to 1"),
        (["--runs", "0"], "whole number"),
        (["--perplexity-ratio", "nan"], "no"),
        (["--requests-per-day", "1e13"], "from 1e-9 to 1e12"),
        (["--requests-per-day", "5e-324"], "from 1e-9 to 1e12"),
    ],
)
def test_a_bad_number_is_refused(
    arguments: list[str], says: str, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "-f", str(manifest), *arguments])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ("20000", r"gives 50 pairs in 24h, .* needs 200 .* 4\.0 days: raise scoring\.samplePercent to 20"),
        ("2000", r"gives 5 pairs in 24h, .* needs 200 .* 40\.0 days: raise scoring\.samplePercent, and rollout\."),
    ],
)
def test_few_pairs_are_noted_with_what_helps(
    requests: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "dm.yaml"
    manifest.write_text(MANIFEST.partition("  scoring:")[0])
    assert main(["simulate", "-f", str(manifest), "--requests-per-day", requests, "--output", "json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert re.search(told, note)


def test_enough_pairs_are_not_noted(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "pairs in" not in simulate(manifest, capsys)
