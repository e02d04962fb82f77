"""The engine without a server, through the command line: one prompt, files of prompts, files of texts to score."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from diffusion_worker.__main__ import EXIT_CONFIGURATION, EXIT_INTERRUPTED, EXIT_SOME_FAILED, main
from diffusion_worker.engine import Engine
from diffusion_worker.offline import batch, score

PROMPTS: list[dict[str, Any]] = [
    {"id": "fox", "prompt": "the fox", "max_tokens": 20},
    {"id": "hen", "prompt": "the hen", "max_tokens": 33, "seed": 5},
    {"id": "chat", "messages": [{"role": "user", "content": "the river"}], "max_tokens": 9},
    {"id": "tokens", "prompt_token_ids": [20, 21, 22], "sampler": {"max_denoising_steps": 2}},
]


def lines(path: Path) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({each["id"] for each in found}) == len(found)
    return {each.pop("id"): each for each in found}


def write(path: Path, work: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in work))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "in.jsonl", PROMPTS), tmp_path / "out.jsonl"


def run_batch(folder: Path, files: tuple[Path, Path], *options: str) -> int:
    source, target = map(str, files)
    return main(["batch", "--checkpoint", str(folder), "--input", source, "--output", target, "--seed", "1", *options])


def test_a_file_of_prompts_becomes_a_file_of_answers(
    diffusion_folder: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_batch(diffusion_folder, files, "--max-tokens", "12", "--max-denoising-steps", "3") == 0
    answers = lines(files[1])
    assert answers.keys() == {"fox", "hen", "chat", "tokens"}
    assert answers["hen"]["seed"] == 5
    assert answers["tokens"]["completion_tokens"] <= 12
    assert all(each["steps"] <= 3 * each["blocks"] for each in answers.values())
    assert answers["tokens"]["steps"] <= 2 * answers["tokens"]["blocks"]
    assert "4 of 4 done" in capsys.readouterr().err


def test_a_run_that_was_stopped_goes_on_and_says_what_one_run_says(
    diffusion_folder: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_batch(diffusion_folder, files, "--max-tokens", "12") == 0
    whole = lines(files[1])
    kept = files[1].read_text().splitlines(keepends=True)[:2]
    files[1].write_text("".join(kept) + '{"id": "to')
    submitted: list[str] = []
    submit = Engine.submit

    def counted(engine: Engine, request: Any, emit: Any) -> Any:
        submitted.append(request.request_id)
        return submit(engine, request, emit)

    monkeypatch.setattr(Engine, "submit", counted)
    assert run_batch(diffusion_folder, files, "--max-tokens", "12", "--max-batch-size", "1") == 0
    assert lines(files[1]) == whole
    assert len(submitted) == 2
    assert files[1].read_text().startswith("".join(kept))


def test_ctrl_c_keeps_what_is_done(
    diffusion_folder: Path,
    files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    take = batch._Answer.take

    def stops_at_the_second_result(job: Any, event: Any) -> Any:
        result = take(job, event)
        if result is not None and files[1].read_text():
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(batch._Answer, "take", stops_at_the_second_result)
    assert run_batch(diffusion_folder, files, "--max-tokens", "12") == EXIT_INTERRUPTED
    assert len(lines(files[1])) == 1
    assert "goes on from there" in capsys.readouterr().err


def test_one_bad_prompt_fails_alone(diffusion_folder: Path, tmp_path: Path) -> None:
    work = [{"id": "long", "prompt_token_ids": [5] * 600}, {"id": "good", "prompt": "the fox", "max_tokens": 5}]
    files = write(tmp_path / "in.jsonl", work), tmp_path / "out.jsonl"
    assert run_batch(diffusion_folder, files) == EXIT_SOME_FAILED
    answers = lines(files[1])
    assert answers["long"]["error"]["code"] == "context_length_exceeded"
    assert answers["good"]["completion_tokens"] <= 5


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ({"prompt": "x", "temperature": 9}, "id 1: temperature: .*got 9"),
        ({"prompt": "x", "sampler": {"steps": 5}}, "id 1: sampler.steps"),
        ({}, "exactly one of prompt"),
    ],
)
def test_a_wrong_line_is_told_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], work: dict[str, Any], words: str
) -> None:
    import re

    (tmp_path / "checkpoint").mkdir()
    files = write(tmp_path / "in.jsonl", [work]), tmp_path / "out.jsonl"
    assert run_batch(tmp_path / "checkpoint", files) == EXIT_CONFIGURATION
    assert re.search(words, capsys.readouterr().err)
    assert not files[1].exists()


def test_generate_takes_the_settings_of_the_sampler(diffusion_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "generate",
        "--checkpoint",
        str(diffusion_folder),
        "--prompt",
        "the fox",
        "--max-tokens",
        "16",
        "--seed",
        "1",
    ]
    assert main([*command, "--max-denoising-steps", "2", "--sampler", "block_refinement", "--no-adaptive"]) == 0
    first = capsys.readouterr()
    assert first.out.strip()
    assert "2 passes, seed 1" in first.err
    assert main([*command, "--temperature-max", "9"]) == EXIT_CONFIGURATION
    assert "sampler.temperature_max" in capsys.readouterr().err
    assert main([*command, "--sampler", "low_confidence"]) == EXIT_CONFIGURATION
    assert "low_confidence" in capsys.readouterr().err


def test_a_revisions_own_configuration_can_be_run(llama_folder: Path, tmp_path: Path) -> None:
    model = {"kind": "ar", "model": "m", "revision": "0", "source": f"file://{llama_folder}", "path": str(llama_folder)}
    (tmp_path / "model.json").write_text(json.dumps(model | {"max_batch_size": 3}))
    (tmp_path / "config.pbtxt").write_text("")
    source = write(tmp_path / "in.jsonl", [{"prompt": "the fox", "max_tokens": 4, "logprobs": 1}])
    target = tmp_path / "out.jsonl"
    assert main(["batch", "--config", str(tmp_path), "--input", str(source), "--output", str(target)]) == 0
    answer = lines(target)["1"]
    assert len(answer["logprobs"]) == answer["completion_tokens"] <= 4


def test_a_file_of_texts_is_scored(llama_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = [{"id": str(i), "prompt": "the fox", "completion": " and the hen" * i} for i in range(1, 5)]
    source, target = (
        write(tmp_path / "in.jsonl", [*work, {"id": "bad", "prompt": "x", "completion": ""}]),
        tmp_path / "out",
    )
    command = ["score", "--checkpoint", str(llama_folder), "--input", str(source), "--output", str(target)]
    assert main(command) == EXIT_SOME_FAILED
    scores = lines(target)
    assert scores.pop("bad")["error"]["param"] == "completion"
    for each in scores.values():
        assert each["perplexity"] == pytest.approx(math.exp(each["nll"] / each["tokens"]))
    total = math.exp(sum(each["nll"] for each in scores.values()) / sum(each["tokens"] for each in scores.values()))
    assert f"perplexity {total:.4f}" in capsys.readouterr().err
    assert main(command) == 0  # nothing is left to do, and the total is the same
    assert f"perplexity {total:.4f}" in capsys.readouterr().err


def test_a_diffusion_model_does_not_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.json").write_text(
        json.dumps({"kind": "diffusion", "model": "m", "revision": "0", "source": "file:///x", "path": str(tmp_path)})
    )
    (tmp_path / "config.pbtxt").write_text("")
    assert main(["score", "--config", str(tmp_path), "--input", "in", "--output", "out"]) == EXIT_CONFIGURATION
    assert "autoregressive" in capsys.readouterr().err


def test_nothing_scored_has_no_perplexity() -> None:
    assert str(score.Total()) == "nothing was scored"


def test_no_rows_are_refused_and_not_taken_for_the_default(
    diffusion_folder: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_batch(diffusion_folder, files, "--max-batch-size", "0") == EXIT_CONFIGURATION
    assert "max_batch_size" in capsys.readouterr().err


def test_a_revision_can_be_run_with_another_canvas_and_told_why_it_cannot_be_run(
    diffusion_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = {"kind": "diffusion", "model": "m", "revision": "0", "source": "file:///x", "path": str(diffusion_folder)}
    (tmp_path / "model.json").write_text(json.dumps(model | {"sampler": {"max_denoising_steps": 2}}))
    (tmp_path / "config.pbtxt").write_text("")
    command = ["generate", "--config", str(tmp_path), "--prompt", "the fox", "--max-tokens", "40", "--seed", "1"]
    assert main([*command, "--canvas-length", "40"]) == 0
    assert "in 1 blocks and 2 passes" in capsys.readouterr().err
    (tmp_path / "model.json").write_text(json.dumps(model | {"sampler": {"stochasticity": 0.5}}))
    assert main(command) == EXIT_CONFIGURATION
    assert "does not know stochasticity" in capsys.readouterr().err
