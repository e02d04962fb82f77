"""`diffusion-worker inspect` of folders."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from diffusion_worker.__main__ import main
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts, Source
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.inspect.source import inspect_source

from tests.unit.sizing.shapes import DREAM, KNOWN, KnownShape, a_tensor, header, write_headers, write_index

CHECKPOINTS = Path(__file__).parents[3] / "examples" / "checkpoints"
STORYTELLER = CHECKPOINTS / "storyteller"


@pytest.mark.parametrize(("name", "parameters"), [("storyteller", 3_637_982), ("storyteller-ar", 3_123_648)])
def test_the_shipped_checkpoints(name: str, parameters: int) -> None:
    facts = inspect_folder(CHECKPOINTS / name)
    assert facts.parameters == parameters
    assert facts.stored_bytes == 2 * parameters
    assert facts.unknown_fields == ()


@pytest.mark.parametrize("known", [pytest.param(known, id=known.name) for known in KNOWN])
def test_for_planning_headers_or_an_index_are_enough(known: KnownShape, tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "headers", known.config, known.tensors)
    assert inspect_folder(headers, may_lack_data=True) == known.facts
    index = write_index(tmp_path / "index", known.config, known.tensors)
    assert inspect_folder(index, may_lack_data=True).weights_from is Source.INDEX


def test_a_checkpoint_is_not_served_from_headers_or_an_index(tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="is cut short"):
        inspect_folder(write_headers(tmp_path / "headers", DREAM.config, DREAM.tensors))
    with pytest.raises(InspectError, match="lacks 1 of 1 weight files, among them model-00001-of"):
        inspect_folder(write_index(tmp_path / "index", DREAM.config, DREAM.tensors))


def test_weights_in_several_files_are_added_up_and_other_files_left_out(tmp_path: Path) -> None:
    first, second = DREAM.tensors[:100], DREAM.tensors[100:]
    (tmp_path / "config.json").write_text(json.dumps(DREAM.config))
    for name, tensors in (("a", first), ("b", second), ("consolidated", DREAM.tensors)):
        (tmp_path / f"{name}.safetensors").write_bytes(header(tensors))
    weight_map = {t.name: "a.safetensors" for t in first} | {t.name: "b.safetensors" for t in second}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    assert inspect_folder(tmp_path, may_lack_data=True) == DREAM.facts


def test_a_file_of_the_index_that_is_missing_is_named_even_for_planning(tmp_path: Path) -> None:
    write_index(tmp_path, DREAM.config, DREAM.tensors)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(header([a_tensor("a", 1)]))
    with pytest.raises(InspectError, match="lacks 1 of 1 weight files"):
        inspect_folder(tmp_path, may_lack_data=True)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "has no config.json: it is not a language model in Hugging Face's layout"),
        ({"model_index.json": "{}"}, "model_index.json is of a diffusers pipeline"),
        ({"config.json": "{"}, "config.json cannot be read as JSON"),
        ({"config.json": "[]"}, "config.json does not hold a JSON object"),
        ({"config.json": json.dumps(DREAM.config)}, r"has no \*\.safetensors$"),
        (
            {"config.json": json.dumps(DREAM.config), "pytorch_model.bin": "pickle"},
            "pytorch_model.bin is pickled, and unpickling can run any code: convert it",
        ),
        (
            {"config.json": json.dumps(DREAM.config), "model.safetensors.index.json": "{}"},
            "has no weight_map: it is not the index",
        ),
        (
            {"config.json": json.dumps(DREAM.config), "model.safetensors.index.json": '{"weight_map": {"a": []}}'},
            "has no weight_map: it is not the index",
        ),
        ({"config.json": "[" * 100_000}, "config.json cannot be read as JSON"),
    ],
)
def test_folders_that_are_no_checkpoint_are_refused(files: dict[str, str], words: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InspectError, match=words):
        inspect_folder(tmp_path)


@pytest.mark.parametrize("total", ["-1", "0", "Infinity", "NaN", '"2"', "[]"])
def test_an_index_without_a_total_is_refused(total: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DREAM.config))
    index = tmp_path / "model.safetensors.index.json"
    for metadata in (f'{{"total_size": {total}}}', total):
        index.write_text(f'{{"metadata": {metadata}, "weight_map": {{"a": "b.safetensors"}}}}')
        with pytest.raises(InspectError, match=r"has no metadata\.total_size and weight_map"):
            inspect_folder(tmp_path, may_lack_data=True)


def test_claims_and_images_are_read_where_they_are_mounted(tmp_path: Path) -> None:
    facts = inspect_folder(STORYTELLER)

    def seen(source: str, mount: Path) -> ModelFacts:
        return inspect_source(source, revision=None, cache=tmp_path, mount=mount)

    assert seen("pvc://models/storyteller", CHECKPOINTS) == facts
    assert seen("pvc://models", STORYTELLER) == facts
    assert seen("image://registry/model:1", STORYTELLER) == facts
    assert seen(f"file://{STORYTELLER}", tmp_path) == facts
    assert seen(str(STORYTELLER), tmp_path) == facts


@pytest.mark.parametrize(
    ("source", "revision", "words"),
    [
        ("pvc://claim/none", None, "is not mounted: there is no folder"),
        ("s3://bucket/model", None, "is not a model source: write hf://"),
        ("hf://a/b/c", None, "is not of the form hf://owner/name"),
        ("file:///model", "main", "has no revisions"),
        ("/no/such/folder", None, "there is no folder /no/such/folder"),
    ],
)
def test_sources_that_lead_nowhere_are_refused(source: str, revision: str | None, words: str, tmp_path: Path) -> None:
    with pytest.raises(InspectError, match=words):
        inspect_source(source, revision=revision, cache=tmp_path, mount=tmp_path)


def test_the_command_prints_facts_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(STORYTELLER), "--output", "json"]) == 0
    assert ModelFacts.model_validate_json(capsys.readouterr().out) == inspect_folder(STORYTELLER)


def test_the_command_prints_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(STORYTELLER)]) == 0
    shown = capsys.readouterr().out
    for words in ("3,637,982 in 6.9 MiB", "2 of 4 experts", "window 128", "64 tokens, self-conditioned", "2,048, tied"):
        assert words in shown


def test_the_command_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "/no/such/folder"]) == 2
    assert capsys.readouterr().err == "diffusion-worker: there is no folder /no/such/folder\n"


def test_inspecting_needs_neither_torch_nor_transformers() -> None:
    program = (
        "import sys; from diffusion_worker.__main__ import main; "
        f"main(['inspect', {str(STORYTELLER)!r}]); print(sorted({{'torch', 'transformers', 'huggingface_hub'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
