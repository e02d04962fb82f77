"""`diffusion-operator plan`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from diffusion_operator.shell.cli import main

from tests.unit.sizing.shapes import DIFFUSION_GEMMA, LLADA, write_headers, write_index


@pytest.fixture
def llada(tmp_path: Path) -> str:
    return str(write_headers(tmp_path / "llada", LLADA.config, LLADA.tensors))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(["plan", *arguments])
    except SystemExit as ended:  # argparse
        code = int(str(ended.code))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *arguments, "--output", "json")
    return code, json.loads(out)


def test_json_for_scripts(llada: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, made = as_json(
        capsys, "--source", llada, "--gpu-memory", "80Gi", "--sequence", "2048", "--batch", "16", "--canvas", "64"
    )
    assert code == 0
    assert (made["fits"], made["rows"], made["tokens"], made["budget_bytes"]) == (True, 16, 2048, 72 * 1024**3)
    assert set(made["bytes"]) == {"weights", "kv", "logits", "self_conditioning", "activations", "reserve"}
    assert sum(made["bytes"].values()) == made["total_bytes"] <= made["budget_bytes"]
    assert made["alternatives"] == []


def test_what_does_not_fit_ends_with_1_and_tells_what_would(llada: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--source", llada, "--gpu-memory", "24Gi", "--sequence", "2048", "--batch", "16", "--canvas", "64")
    code, made = as_json(capsys, *arguments)
    assert (code, made["fits"], made["rows"]) == (1, False, 16)
    assert made["shortfall_bytes"] == made["total_bytes"] - made["budget_bytes"]
    assert {other["change"] for other in made["alternatives"]} == {"fewer rows", "shorter", "more GPUs"}
    code, out, _ = run(capsys, *arguments)
    assert code == 1
    assert out.startswith("Does not fit: 16 rows × 2,048 tokens in bfloat16 need ")
    assert "fewer rows" in out


def test_a_table_for_people(llada: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--source", llada, "--gpu-memory", "80Gi", "--sequence", "2048", "--canvas", "64")
    assert code == 0
    assert out.startswith("Fits: ")
    for words in ("weights", "14.93 GiB", "keys and values", "budget", "72.00 GiB"):
        assert words in out


def test_an_index_alone_is_planned_with_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_index(tmp_path, DIFFUSION_GEMMA.config, DIFFUSION_GEMMA.tensors)
    code, made = as_json(capsys, "--source", f"file://{folder}", "--gpu-memory", "80Gi", "--sequence", "2048")
    assert (code, made["canvas"], made["dtype"]) == (0, 256, "bfloat16")
    assert made["notes"] == [
        "parts of the weights are shared out from the index: the headers of the files would tell exactly"
    ]


def test_facts_that_the_worker_printed_are_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text(DIFFUSION_GEMMA.facts.model_dump_json(exclude_none=True))
    code, made = as_json(capsys, "--source", str(facts), "--gpu-memory", "80Gi", "--sequence", "2048", "--dtype", "fp8")
    assert code == 0
    assert made["notes"] == ["the worker of this release loads float32, bfloat16 and float16 only"]


def test_on_cpu_weights_are_float32_as_the_worker_has_them(llada: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, made = as_json(capsys, "--source", llada, "--memory", "64Gi", "--device", "cpu", "--canvas", "64")
    assert made["dtype"] == "float32"
    assert made["bytes"]["weights"] == 4 * LLADA.facts.parameters


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu-memory", "80Gi", "--source", "/no/such/folder"], "there is no folder /no/such/folder"),
        (
            ["--gpu-memory", "80Gi", "--source", "hf://org/model"],
            "run `diffusion-worker inspect hf://org/model --output json",
        ),
        (["--gpu-memory", "80Gi", "--source", __file__], "does not hold the facts of a model"),
        (["--gpu-memory", "80GB", "--source", "LLADA"], "'80GB' is not a quantity: write a positive number"),
        (["--gpu-memory", "80Gi", "--source", ""], "--source is empty"),
        (["--gpu-memory", "80", "--source", "LLADA"], "80 is 80 bytes: write the memory with its unit, as 80Gi"),
        (
            ["--gpu-memory", "80Gi", "--source", "LLADA", "--memory-utilization", "1e-12"],
            "less than one byte: raise --memory-utilization",
        ),
        (["--gpu-memory", "80Gi", "--source", "LLADA"], "gives no canvas length"),
        (["--gpu-memory", "80Gi", "--source", "LLADA", "--canvas", "0"], "a canvas of 0 tokens: write a number from 8"),
        (["--gpu-memory", "80Gi", "--source", "LLADA", "--canvas", "64", "--sequence", "9000"], "longer than the 4096"),
        (
            ["--gpu-memory", "80Gi", "--source", "LLADA", "--canvas", "64", "--batch", "many"],
            "neither auto nor a whole",
        ),
        (
            ["--gpu-memory", "80Gi", "--source", "LLADA", "--memory-utilization", "90"],
            "write a number above 0 and up to 1",
        ),
        (["--gpu-memory", "80Gi", "--source", "LLADA", "--device", "cpu", "--gpus", "2"], "exclude each other"),
        (["--source", "LLADA"], "--gpu-memory"),
    ],
)
def test_wrong_input_ends_with_2_and_says_what_to_write(
    arguments: list[str], words: str, llada: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *(llada if argument == "LLADA" else argument for argument in arguments))
    assert code == 2
    assert out == ""
    assert words in err


def test_planning_needs_neither_torch_nor_a_cluster(llada: str) -> None:
    program = (
        "import sys; from diffusion_operator.shell.cli import main; "
        f"main(['plan', '--source', {llada!r}, '--gpu-memory', '80Gi', '--canvas', '64']); "
        "print(sorted({'torch', 'transformers', 'huggingface_hub', 'kopf', 'kubernetes'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_memory_that_no_gpu_has_is_refused(llada: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--source", llada, "--gpu-memory", "9" * 5000 + "Gi"])
    assert ended.value.code == 2
    assert "more than any GPU has" in capsys.readouterr().err
