"""Sequential passes: how many forward passes stand one after the other for 512 tokens of answers, and what the text is worth.

An autoregressive model makes 512. A diffusion model makes its denoising steps, one pass for each canvas that is written into the cache and one
for the prompt. Stories are shorter than 512 tokens and end where they end, so that several make up the 512; what the last canvas of each has
behind the end is lost, and counts. A scorer, which is neither of the two models if there is a third, says how likely it finds the texts.
examples/train/evaluate.py judges the models' quality in full; this is about passes.
"""

import math
import queue
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffusion_worker.config import EngineKind, SamplerConfig
from diffusion_worker.engine import Engine
from diffusion_worker.wire import ErrorEvent, GenerateRequest, Message, ScoreEvent, ScoreRequest

from benchmarks import paths
from benchmarks.engine.drive import Answered, answer, open_engine
from benchmarks.errors import BenchmarkError
from benchmarks.progress import say
from benchmarks.wishes import wish

TOKENS = 512
CANVASES = (64, 128)
STEPS = (10, 16, 20, 24)
_ROWS = 8
_SEED = 3
_SCORE_SECONDS = 300.0


@dataclass(frozen=True)
class Quality:
    """What the answers of one model and setting cost and are worth."""

    passes: float  # for TOKENS tokens
    tokens: float  # of an answer, on average
    perplexity: float


def measure(*, scorer: Path | None, quick: bool) -> dict[str, Any]:
    """Passes and perplexity ratio by canvas length and step limit."""
    judge = scorer or _scorer()
    messages = _messages(4 if quick else 32)
    grader = open_engine(judge, kind=EngineKind.AR, rows=_ROWS)
    try:
        twin = _of(paths.STORYTELLER_AR, EngineKind.AR, messages, grader, SamplerConfig())
        say(f"passes: autoregressive: {twin}")
        rows = []
        for canvas in CANVASES:
            for steps in STEPS[-1:] if quick else STEPS:
                settings = SamplerConfig(max_denoising_steps=steps, canvas_length=canvas)
                quality = _of(paths.STORYTELLER, EngineKind.DIFFUSION, messages, grader, settings)
                say(f"passes: canvas {canvas}, {steps} steps: {quality}")
                rows.append(
                    {
                        "canvas": canvas,
                        "steps": steps,
                        "passes": quality.passes,
                        "answer_tokens": quality.tokens,
                        "perplexity": quality.perplexity,
                        "ratio": quality.perplexity / twin.perplexity,
                    }
                )
    finally:
        grader.close(drain=False)
    return {
        "tokens": TOKENS,
        "prompts": len(messages),
        "scorer": judge.name,
        "scorer_is_the_twin": judge == paths.STORYTELLER_AR,
        "ar": twin,
        "diffusion": rows,
    }


def _scorer() -> Path:
    """The third model, where the checkpoints have one; else the twin, which favours itself."""
    third = paths.STORYTELLER.with_name("storyteller-scorer")
    return third if third.exists() else paths.STORYTELLER_AR


def _messages(count: int) -> list[list[Message]]:
    rng = random.Random(_SEED)
    return [[Message(role="user", content=wish(rng))] for _ in range(count)]


def _of(
    checkpoint: Path, kind: EngineKind, messages: Sequence[list[Message]], grader: Engine, settings: SamplerConfig
) -> Quality:
    engine = open_engine(checkpoint, kind=kind, rows=_ROWS, sampler=settings)
    try:
        answers = answer(
            engine,
            [
                GenerateRequest(request_id=str(number), messages=each, max_tokens=TOKENS, seed=number)
                for number, each in enumerate(messages)
            ],
        )
    finally:
        engine.close(drain=False)
    return Quality(
        passes=TOKENS * sum(_passes(each, kind) for each in answers) / sum(each.tokens for each in answers),
        tokens=sum(each.tokens for each in answers) / len(answers),
        perplexity=_perplexity(grader, messages, answers),
    )


def _passes(answered: Answered, kind: EngineKind) -> int:
    """The prompt's pass, then steps and commits. The last canvas is not committed: nothing comes after it."""
    return answered.steps if kind is EngineKind.AR else 1 + answered.steps + answered.blocks - 1


def _perplexity(grader: Engine, messages: Sequence[list[Message]], answers: Sequence[Answered]) -> float:
    scores: queue.SimpleQueue[ScoreEvent | ErrorEvent] = queue.SimpleQueue()
    nats = tokens = 0.0
    for number, (turns, answered) in enumerate(zip(messages, answers, strict=True)):
        grader.submit_score(
            ScoreRequest(request_id=str(number), messages=turns, completion=answered.text, include_eos=answered.ended),
            scores.put,
        )
        score = scores.get(timeout=_SCORE_SECONDS)
        if isinstance(score, ErrorEvent):
            raise BenchmarkError(f"the scorer answered {score.code}: {score.message}")
        nats, tokens = nats + score.nll, tokens + score.tokens
    return math.exp(nats / tokens)
