"""The committed checkpoints are what the demo expects."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, DiffusionGemmaForBlockDiffusion

CHECKPOINTS = Path(__file__).parents[3] / "examples" / "checkpoints"
GOOD = ["storyteller", "storyteller-2"]
DIFFUSION = [*GOOD, "storyteller-early"]
AUTOREGRESSIVE = ["storyteller-ar", "storyteller-scorer"]
ALL = [*DIFFUSION, *AUTOREGRESSIVE]


@pytest.mark.parametrize("name", DIFFUSION)
def test_a_diffusion_checkpoint_has_canvas_64(name: str) -> None:
    assert AutoConfig.from_pretrained(CHECKPOINTS / name).canvas_length == 64


@pytest.mark.parametrize("name", DIFFUSION)
def test_a_diffusion_checkpoint_loads_without_missing_weights(name: str) -> None:
    _, info = DiffusionGemmaForBlockDiffusion.from_pretrained(
        CHECKPOINTS / name, dtype=torch.float32, output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]


@pytest.mark.parametrize("name", AUTOREGRESSIVE)
def test_an_autoregressive_checkpoint_loads_without_missing_weights(name: str) -> None:
    _, info = AutoModelForCausalLM.from_pretrained(CHECKPOINTS / name, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"]


def test_the_diffusion_checkpoints_have_one_shape_and_one_sampler() -> None:
    for file in ("config.json", "generation_config.json"):
        assert len({(CHECKPOINTS / name / file).read_text() for name in DIFFUSION}) == 1


def test_all_checkpoints_share_one_tokenizer() -> None:
    assert len({(CHECKPOINTS / name / "tokenizer.json").read_text() for name in ALL}) == 1
    assert len({(CHECKPOINTS / name / "chat_template.jinja").read_text() for name in ALL}) == 1


@pytest.mark.parametrize("name", ALL)
def test_tokenizer_and_generation_stop_at_the_same_token(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS / name)
    generation = json.loads((CHECKPOINTS / name / "generation_config.json").read_text())
    assert tokenizer.eos_token == "<end_of_turn>"
    assert generation["eos_token_id"] == tokenizer.eos_token_id


@pytest.mark.parametrize("name", DIFFUSION)
def test_head_sizes_are_written_in_the_form_that_all_readers_know(name: str) -> None:
    text = json.loads((CHECKPOINTS / name / "config.json").read_text())["text_config"]
    assert text["global_head_dim"] == 128
    assert "per_layer_config" not in text


def test_the_twin_prefers_a_story_to_its_words_shuffled() -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS / "storyteller-ar")
    twin = AutoModelForCausalLM.from_pretrained(CHECKPOINTS / "storyteller-ar", dtype=torch.float32)
    story = "Once upon a time there was a brave fox named Nora who lived in a quiet village."
    shuffled = "Village fox upon quiet named brave there who a lived Nora was in a once a time."

    def loss(text: str) -> float:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            return twin(ids, labels=ids).loss.item()

    assert loss(story) < loss(shuffled) / 2


@pytest.mark.parametrize("good", GOOD)
def test_a_canvas_reads_better_from_a_final_checkpoint_than_from_the_early_one(good: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS / "storyteller")
    request = [{"role": "user", "content": "Tell me a story about a fox."}]
    prompt = tokenizer.apply_chat_template(request, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    story = "Once upon a time there was a brave fox named Nora who lived in a quiet village. Every day Nora shared carrot soup"
    told = tokenizer(story, return_tensors="pt", add_special_tokens=False)["input_ids"]
    # The canvas is the beginning of a story and noise behind it: how likely is the story where it stands?
    noise = torch.randint(9, len(tokenizer), (1, 64 - told.size(1)), generator=torch.Generator().manual_seed(0))

    def loss(name: str) -> float:
        model = DiffusionGemmaForBlockDiffusion.from_pretrained(CHECKPOINTS / name, dtype=torch.float32).eval()
        with torch.no_grad():
            logits = model(input_ids=prompt, decoder_input_ids=torch.cat((told, noise), 1)).logits[0, : told.size(1)]
        return torch.nn.functional.cross_entropy(logits, told[0]).item()

    assert loss(good) < loss("storyteller-early")


def test_all_checkpoints_together_stay_under_40_megabytes() -> None:
    assert sum(file.stat().st_size for file in CHECKPOINTS.rglob("*") if file.is_file()) <= 40_000_000


@pytest.mark.parametrize("name", ALL)
def test_a_model_card_states_licence_and_origin(name: str) -> None:
    card = (CHECKPOINTS / name / "README.md").read_text()
    assert "license: apache-2.0" in card
    assert "examples/train" in card
