"""Prompts enter the cache in chunks between denoising steps, so that a long one does not hold the others up."""

import pytest
from diffusion_worker.engine import slots
from diffusion_worker.engine.observer import PassKind
from diffusion_worker.engine.output import Output
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.slots import PREFILL_CHUNK, prefill_chunks
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel

from tests.engine.answers import request
from tests.engine.checkpoints import CANVAS
from tests.engine.driving import Drive, tokens_of
from tests.engine.runners import ar_runner, diffusion_runner

CHUNK = 2 * CANVAS
NEVER_DONE = {"stability_threshold": 64, "max_denoising_steps": 64}


@pytest.fixture
def drive(diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """A runner whose chunks are short, so that a prompt of this small model has many, and whose canvases take long."""
    monkeypatch.setattr(slots, "PREFILL_CHUNK", CHUNK)
    return Drive(diffusion_runner(diffusion_model, max_batch_size=8, **NEVER_DONE))


def row_of(prompt_tokens: int, *, slot: int, arrived: float, model: DiffusionModel) -> Row:
    """A row that waits with its whole prompt."""
    output = Output(tokenizer=model.tokenizer, eos_token_ids=(), max_tokens=1, stops=())
    return Row(
        request_id="r",
        prompt_token_ids=[3] * prompt_tokens,
        max_tokens=1,
        temperature=1.0,
        top_p=1.0,
        seed=0,
        output=output,
        emit=lambda event: None,
        arrived=arrived,
        slot=slot,
        pending=[3] * prompt_tokens,
    )


def test_others_denoise_in_every_step_while_a_long_prompt_is_read(drive: Drive) -> None:
    drive.admit(request("the fox", request_id="running"))
    drive.step()
    long = drive.admit(request([3] * (10 * CHUNK), request_id="long"))
    for read in range(1, 11):
        drive.step()
        encode, denoise = drive.passes[-1]
        assert (encode.kind, encode.rows) == (PassKind.ENCODE, 1)
        assert denoise.kind == PassKind.DENOISE
        assert long.cached == read * CHUNK
    assert denoise.rows == 2  # the step that reads the end of the prompt denoises its row as well


def test_long_prompts_share_the_room_beside_the_canvases_first_come_first_served(drive: Drive) -> None:
    for i in range(3):  # 3 canvases of 16 tokens leave room for 48 tokens of prompts
        drive.admit(request("the fox", request_id=f"running {i}"))
    drive.step()
    first, second = (drive.admit(request([3] * (3 * CHUNK), request_id=name)) for name in ("first", "second"))
    seen = []
    for _ in range(4):
        drive.step()
        seen.append((first.cached, second.cached))
    assert seen == [(32, 16), (64, 32), (96, 48), (96, 80)]


def test_short_prompts_do_not_wait_for_long_ones(drive: Drive) -> None:
    drive.admit(request([3] * (10 * CHUNK), request_id="long"))
    drive.step()
    short = drive.admit(request("the fox", request_id="short"))
    drive.step()
    assert short.canvas is not None
    assert short.canvas.step == 1


def test_a_prompt_of_four_thousand_tokens_takes_eight_chunks_beside_a_small_batch(
    diffusion_model: DiffusionModel,
) -> None:
    running = row_of(0, slot=0, arrived=0.0, model=diffusion_model)
    long = row_of(4096, slot=1, arrived=1.0, model=diffusion_model)
    taken = []
    while len(long.pending) > 0:
        ((_, chunk),) = prefill_chunks([running, long], step_tokens=64)
        taken.append(len(chunk))
        long.count_cached(len(chunk))
    assert taken == [PREFILL_CHUNK] * 8


def test_long_prompts_take_no_more_than_the_canvases_they_run_beside(diffusion_model: DiffusionModel) -> None:
    running = [row_of(0, slot=i, arrived=0.0, model=diffusion_model) for i in range(12)]
    long = [row_of(4096, slot=12 + i, arrived=8.0 - i, model=diffusion_model) for i in range(4)]
    chunks = prefill_chunks([*running, *long], step_tokens=100)
    assert [(row.slot, len(chunk)) for row, chunk in chunks] == [(13, 176), (14, 512), (15, 512)]  # the last came first


def test_with_nobody_to_hold_up_a_pass_takes_the_chunks_of_four_prompts(diffusion_model: DiffusionModel) -> None:
    """Those of all would take memory in proportion to the rows, and more than a denoising step does."""
    rows = [row_of(4096, slot=i, arrived=i, model=diffusion_model) for i in range(8)]
    chunks = prefill_chunks(rows, step_tokens=64)
    assert [(row.slot, len(chunk)) for row, chunk in chunks] == [(i, PREFILL_CHUNK) for i in range(4)]


def test_short_prompts_begin_together_as_far_as_the_pass_has_room(diffusion_model: DiffusionModel) -> None:
    rows = [row_of(100, slot=i, arrived=i, model=diffusion_model) for i in range(32)]
    chunks = prefill_chunks(rows, step_tokens=64)
    assert [len(chunk) for _, chunk in chunks] == [100] * 20 + [48]


def test_a_pass_that_pads_its_rows_counts_the_padding(diffusion_model: DiffusionModel) -> None:
    lengths = (10, 600, 600, 600, 600, 5)
    rows = [row_of(length, slot=i, arrived=i, model=diffusion_model) for i, length in enumerate(lengths)]
    chunks = [len(chunk) for _, chunk in prefill_chunks(rows, step_tokens=1, padded=True)]
    assert chunks == [10, 512, 512, 512]
    assert len(chunks) * max(chunks) == 4 * PREFILL_CHUNK


def test_an_autoregressive_row_writes_a_token_in_every_step_while_prompts_share_one_chunk(
    llama_model: ARModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "PREFILL_CHUNK", CHUNK)
    runner = ar_runner(llama_model, max_batch_size=8)
    runner.eos_token_ids = frozenset()
    drive = Drive(runner)
    drive.admit(request([3] * 5, request_id="running"))
    drive.step()
    prompts = [drive.admit(request([3] * (CHUNK + 8), request_id=f"prompt {i}")) for i in range(3)]
    seen = []
    for written in range(2, 6):
        drive.step()
        seen.append([row.cached for row in prompts])
        assert len(drive.tokens("running")) == written
    assert seen[0] == [CHUNK, 0, 0]
    assert seen[1] == [CHUNK + 8, CHUNK // 2, 0]  # two rows of a rectangle
    assert seen[3][2] == CHUNK


def test_chunks_change_no_token(diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    each = request([5, 9, 17] * 40, seed=3)
    whole = tokens_of(diffusion_runner(diffusion_model), [each])
    monkeypatch.setattr(slots, "PREFILL_CHUNK", CHUNK)
    assert tokens_of(diffusion_runner(diffusion_model), [each]) == whole
