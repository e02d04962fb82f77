"""Held-out requests → answers of both models through the worker's engine → a table, and the same as JSON.

`python -m examples.train.evaluate CHECKPOINTS --scorer FOLDER` prints the table of README.md.
"""

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from diffusion_worker.config import EngineKind, SamplerSettings
from diffusion_worker.engine import Engine
from diffusion_worker.wire import GenerateRequest, Message, ScoreRequest
from transformers import AutoTokenizer

from examples.train.answering import Answer, ask, open_engine
from examples.train.documents import Document, documents
from examples.train.metrics import answered, distinct_pairs, repetition
from examples.train.models import CANVAS

MAX_TOKENS = 256
EQUAL_LENGTH = 128
"""Perplexity, repetition and distinct pairs are those of this many first tokens of each answer; a story has more."""
LONG = 512
EVALUATION_SEED = 2
"""Of the requests; training uses another. The combinations were never trained on. Choose settings on yet another seed."""


@dataclass(frozen=True)
class Row:
    """One line of the table. Shares are 0–1; `steps` are denoising passes per full canvas (0: not a diffusion model)."""

    name: str
    scorer: str
    sampler: dict[str, object] | None
    prompts: int
    seeds: int
    perplexity: float
    perplexity_of_each_seed: list[float]
    repetition: float
    distinct_pairs: float
    answered: float
    ended: float
    tokens: float
    steps: float
    capped: float  # share of full canvases that were committed because the steps ran out
    passes_for_512: float


@dataclass(frozen=True)
class Told:
    """An answer of any origin: its tokens up to and with the end of turn, and the denoising passes of its full canvases."""

    tokens: list[int]
    text: str
    ended: bool
    steps: list[int]
    capped: list[bool]


class Evaluation:
    """The requests, the scorer and the rows that were measured."""

    def __init__(self, scorer: Path, *, prompts: int, seed: int = EVALUATION_SEED) -> None:
        made = (d for d in documents(100 * prompts, seed=seed) if d.held_out and len(d.turns) == 2)
        self.documents = [document for document, _ in zip(made, range(prompts), strict=False)]
        self.tokenizer = AutoTokenizer.from_pretrained(scorer)
        self.scorer_name = scorer.name
        self.scorer = open_engine(scorer, EngineKind.AR)
        self.rows: list[Row] = []

    def of_texts(self, name: str) -> None:
        """Measure the stories of the grammar itself."""
        told = [self._told(document.turns[1].text, ended=True) for document in self.documents]
        self._measure(name, self.documents, [told])

    def of_model(
        self,
        name: str,
        engine: Engine,
        *,
        seeds: int,
        prompts: int | None = None,
        sampler: SamplerSettings | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        show: int = 0,
    ) -> Row:
        """Measure a model's answers; print `show` of them below the row, as they came."""
        chosen, told = self.documents[:prompts], []
        for seed in range(seeds):
            requests = [
                GenerateRequest(
                    request_id=f"{name} {seed} {i}",
                    messages=_messages(document),
                    max_tokens=MAX_TOKENS,
                    temperature=temperature,
                    top_p=top_p,
                    seed=1000 * seed + i,
                    sampler=sampler or SamplerSettings(),
                )
                for i, document in enumerate(chosen)
            ]
            told.append([self._told_by(answer) for answer in ask(engine, requests)])
        row = self._measure(name, chosen, told, sampler)
        for document, answer in list(zip(chosen, told[0], strict=True))[:show]:
            print(f"\n> **{document.turns[0].text}** {answer.text}\n")
        return row

    def _told_by(self, answer: Answer) -> Told:
        full = [block for block in answer.blocks[:-1] if block.tokens == CANVAS]
        return dataclasses.replace(
            self._told(answer.text, ended=answer.finish.reason == "stop"),
            steps=[block.steps for block in full],
            capped=[not block.converged for block in full],
        )

    def _told(self, text: str, *, ended: bool) -> Told:
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return Told([*tokens, self.tokenizer.eos_token_id] if ended else tokens, text, ended, [], [])

    def _measure(
        self,
        name: str,
        chosen: Sequence[Document],
        told: Sequence[Sequence[Told]],
        sampler: SamplerSettings | None = None,
    ) -> Row:
        pairs = [(document, answer) for answers in told for document, answer in zip(chosen, answers, strict=True)]
        requests = [
            ScoreRequest(
                request_id=str(i),
                messages=_messages(document),
                completion_token_ids=answer.tokens[:EQUAL_LENGTH] or [self.tokenizer.eos_token_id],
            )
            for i, (document, answer) in enumerate(pairs)
        ]
        scores = [answer.score for answer in ask(self.scorer, requests)]
        by_seed = [scores[i : i + len(chosen)] for i in range(0, len(scores), len(chosen))]
        starts = [answer.tokens[:EQUAL_LENGTH] for _, answer in pairs]
        hits = [answered(document.turns[0].text, answer.text) for document, answer in pairs]
        steps = [count for _, answer in pairs for count in answer.steps]
        capped = [was for _, answer in pairs for was in answer.capped]
        row = Row(
            name=name,
            scorer=self.scorer_name,
            sampler=sampler.model_dump(mode="json", exclude_none=True) if sampler else None,
            prompts=len(chosen),
            seeds=len(told),
            perplexity=_perplexity(scores),
            perplexity_of_each_seed=[_perplexity(part) for part in by_seed],
            repetition=fmean(map(repetition, starts)),
            distinct_pairs=fmean(map(distinct_pairs, starts)),
            answered=fmean(hit for hit in hits if hit is not None),
            ended=fmean(answer.ended for _, answer in pairs),
            tokens=fmean(len(answer.tokens) for _, answer in pairs),
            steps=fmean(steps) if steps else 0.0,
            capped=fmean(capped) if capped else 0.0,
            passes_for_512=fmean(steps) * LONG / CANVAS if steps else float(LONG),
        )
        self.rows.append(row)
        print(_line(row), flush=True)
        return row


HEADER = (
    "| | perplexity | repetition | distinct-2 | answered | ended | tokens | steps per canvas | at the cap | passes for 512 |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def _line(row: Row) -> str:
    canvas = f"{row.steps:.1f} | {row.capped:.2f}" if row.steps else " | "
    return (
        f"| {row.name} | {row.perplexity:.3f} | {row.repetition:.3f} | {row.distinct_pairs:.3f} | {row.answered:.2f} "
        f"| {row.ended:.2f} | {row.tokens:.0f} | {canvas} | {row.passes_for_512:.0f} |"
    )


def _perplexity(scores: Sequence[object]) -> float:
    return math.exp(sum(score.nll for score in scores) / sum(score.tokens for score in scores))  # type: ignore[attr-defined]


def _messages(document: Document) -> list[Message]:
    return [Message(role="user", content=document.turns[0].text)]


def main() -> None:
    """Print the table as Markdown and write it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m examples.train.evaluate", description=__doc__)
    parser.add_argument("checkpoints", type=Path, help="folder with the diffusion models and storyteller-ar")
    parser.add_argument("--scorer", type=Path, required=True, help="an AR model of another seed: it favours neither")
    parser.add_argument("--diffusion", nargs="*", default=["storyteller"], help="folders of the diffusion models")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--prompt-seed", type=int, default=EVALUATION_SEED)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--curve", type=int, nargs="*", default=[8, 12, 16, 20, 24, 48], help="steps, one row each, of the first model"
    )
    parser.add_argument("--curve-prompts", type=int, default=30)
    parser.add_argument(
        "--samplers",
        type=SamplerSettings.model_validate_json,
        nargs="*",
        default=[],
        help="more rows: settings as JSON",
    )
    parser.add_argument("--show", type=int, default=0, help="answers to print below a model's first row")
    parser.add_argument("--no-twin", action="store_true", help="leave out the rows that need no diffusion model")
    parser.add_argument("--out", type=Path, help="write the rows here, as JSON")
    arguments = parser.parse_args()
    evaluation = Evaluation(arguments.scorer, prompts=arguments.prompts, seed=arguments.prompt_seed)
    print(HEADER)
    if not arguments.no_twin:
        evaluation.of_texts("the grammar itself")
        with closing(open_engine(arguments.checkpoints / "storyteller-ar", EngineKind.AR)) as twin:
            for temperature, top_p in ((1.0, 1.0), (0.7, 0.95)):
                name = f"AR twin, T = {temperature}, p = {top_p}"
                evaluation.of_model(name, twin, seeds=arguments.seeds, temperature=temperature, top_p=top_p)
    for name in arguments.diffusion:
        with closing(open_engine(arguments.checkpoints / name, EngineKind.DIFFUSION)) as engine:
            if arguments.seeds:
                evaluation.of_model(name, engine, seeds=arguments.seeds, show=arguments.show)
            of_first = arguments.curve if name == arguments.diffusion[0] else []
            curve = [SamplerSettings(max_denoising_steps=steps) for steps in of_first]
            for sampler in [*curve, *arguments.samplers]:
                said = ", ".join(f"{k} {v}" for k, v in sampler.model_dump(mode="json", exclude_none=True).items())
                evaluation.of_model(
                    f"{name}, {said}", engine, seeds=1, prompts=arguments.curve_prompts, sampler=sampler
                )
    evaluation.scorer.close()
    if arguments.out:
        rows = [dataclasses.asdict(row) for row in evaluation.rows]
        arguments.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
