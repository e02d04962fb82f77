"""What `diffusion-worker inspect` leaves behind in a container that ended."""

from pathlib import Path

import pytest
from diffusion_worker.__main__ import main
from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import LayerGroup, LayerKind, ModelFacts
from diffusion_worker.inspect.message import MOST_BYTES, facts_message, refusal_message

from tests.unit.sizing.shapes import DREAM, KNOWN, KnownShape

STORYTELLER = Path(__file__).parents[3] / "examples" / "checkpoints" / "storyteller"


@pytest.mark.parametrize("known", [pytest.param(known, id=known.name) for known in KNOWN])
def test_facts_are_the_same_after_the_message(known: KnownShape) -> None:
    message = facts_message(known.facts)
    assert len(message.encode()) <= MOST_BYTES
    assert ModelFacts.model_validate_json(message) == known.facts


def test_the_command_leaves_facts_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "message"
    assert main(["inspect", str(STORYTELLER), "--output=json", f"--termination-message={file}"]) == 0
    assert ModelFacts.model_validate_json(file.read_text()) == ModelFacts.model_validate_json(capsys.readouterr().out)


def test_the_command_leaves_behind_why_there_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "message"
    assert main(["inspect", str(tmp_path / "none"), f"--termination-message={file}"]) == 2
    assert file.read_text() == f"there is no folder {tmp_path / 'none'}"
    assert file.read_text() in capsys.readouterr().err


def test_a_message_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(STORYTELLER), f"--termination-message={tmp_path}"]) == 2
    assert f"{tmp_path} cannot be written" in capsys.readouterr().err


def test_names_that_nobody_understood_go_first() -> None:
    facts = DREAM.facts.model_copy(update={"unknown_fields": tuple(f"field_{i}_{'x' * 300}" for i in range(16))})
    assert ModelFacts.model_validate_json(facts_message(facts)) == DREAM.facts.model_copy(update={"unknown_fields": ()})


def test_facts_that_do_not_fit_are_refused() -> None:
    layers = tuple(
        LayerGroup(kind=LayerKind.FULL, layers=1, heads=8, kv_heads=8, head_dim=dim, kv_layers=1)
        for dim in range(1, 80)
    )
    with pytest.raises(InspectError, match="79 kinds"):
        facts_message(DREAM.facts.model_copy(update={"layers": layers}))


def test_a_long_refusal_is_cut_between_letters() -> None:
    message = refusal_message(InspectError("€" * 4096))
    assert message == "€" * (MOST_BYTES // 3)
