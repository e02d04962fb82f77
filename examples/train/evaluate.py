"""Held-out requests → texts of both models → one line of measures each.

Usage: `python -m examples.train.evaluate CHECKPOINTS [--samples N] [--settings STEPS:BOUND:T_MIN:T_MAX ...]`
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, DiffusionGemmaForBlockDiffusion
from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSamplerConfig

from examples.train.documents import Document, documents
from examples.train.metrics import answered, distinct_pairs, repetition
from examples.train.models import CANVAS

MAX_TOKENS = 256
EVALUATION_SEED = 2  # training uses another: these documents are new, and their combinations were never trained on


@dataclass(frozen=True)
class Sampler:
    """Settings of the entropy-bound sampler."""

    steps: int
    bound: float
    t_min: float
    t_max: float

    @classmethod
    def parse(cls, text: str) -> "Sampler":
        """`24:0.3:0.2:0.5`."""
        steps, *numbers = text.split(":")
        return cls(int(steps), *(float(number) for number in numbers))


@dataclass(frozen=True)
class Sample:
    """One answer: its tokens up to and with the end of turn, and the denoising passes that it took (0: autoregressive)."""

    tokens: list[int]
    passes: int


class Evaluation:
    """The models, the requests, and the table that comes out."""

    def __init__(self, checkpoints: Path, diffusion: str, *, samples: int) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoints / "storyteller-ar")
        load = {"dtype": torch.float32}
        self.twin = AutoModelForCausalLM.from_pretrained(checkpoints / "storyteller-ar", **load).eval()
        self.model = DiffusionGemmaForBlockDiffusion.from_pretrained(checkpoints / diffusion, **load).eval()
        self._passes = 0
        self.model.model.decoder.register_forward_hook(self._count)
        made = (d for d in documents(200 * samples, seed=EVALUATION_SEED) if d.held_out and len(d.turns) == 2)
        self.documents = [document for document, _ in zip(made, range(samples), strict=False)]

    def _count(self, *_: object) -> None:
        self._passes += 1

    def prompt(self, document: Document) -> torch.Tensor:
        """The request in the chat template, [1, P]."""
        messages = [{"role": "user", "content": document.turns[0].text}]
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")[
            "input_ids"
        ]

    def real(self, document: Document) -> Sample:
        """The story of the grammar itself."""
        return Sample(
            [
                *self.tokenizer(document.turns[1].text, add_special_tokens=False)["input_ids"],
                self.tokenizer.eos_token_id,
            ],
            0,
        )

    def autoregressive(self, document: Document, *, temperature: float, top_p: float) -> Sample:
        """Sample from the twin."""
        prompt = self.prompt(document)
        options = {"temperature": temperature, "top_p": top_p, "top_k": 0, "max_new_tokens": MAX_TOKENS}
        out = self.twin.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True, **options)
        return self._cut(out[0, prompt.size(1) :].tolist(), 0)

    def diffusion(self, document: Document, *, sampler: Sampler) -> Sample:
        """Sample from the diffusion model."""
        prompt, self._passes = self.prompt(document), 0
        out = self.model.generate(
            prompt,
            max_new_tokens=MAX_TOKENS,
            max_denoising_steps=sampler.steps,
            t_min=sampler.t_min,
            t_max=sampler.t_max,
            sampler_config=EntropyBoundSamplerConfig(entropy_bound=sampler.bound),
        )
        return self._cut(out.sequences[0, prompt.size(1) :].tolist(), self._passes)

    def _cut(self, tokens: list[int], passes: int) -> Sample:
        end = self.tokenizer.eos_token_id
        return Sample(tokens[: tokens.index(end) + 1] if end in tokens else tokens, passes)

    @torch.no_grad()
    def surprise(self, document: Document, sample: Sample) -> float:
        """Sum of the twin's negative log-likelihoods of the answer, in nats."""
        prompt = self.prompt(document)
        answer = torch.tensor([sample.tokens])
        logits = self.twin(torch.cat((prompt, answer), 1)).logits[0, prompt.size(1) - 1 : -1]
        return F.cross_entropy(logits, answer[0], reduction="sum").item()

    def row(self, name: str, sample_of: Callable[[Document], Sample], *, show: int = 0) -> None:
        """Print one line of the table, and `show` texts under it."""
        torch.manual_seed(0)
        samples = [sample_of(document) for document in self.documents]
        pairs = list(zip(self.documents, samples, strict=True))
        tokens = sum(len(sample.tokens) for sample in samples)
        perplexity = math.exp(sum(self.surprise(d, s) for d, s in pairs) / tokens)
        texts = [self.tokenizer.decode(sample.tokens, skip_special_tokens=True) for sample in samples]
        hits = [answered(d.turns[0].text, text) for d, text in zip(self.documents, texts, strict=True)]
        known = [hit for hit in hits if hit is not None]
        ended = sum(sample.tokens[-1] == self.tokenizer.eos_token_id for sample in samples) / len(samples)
        canvases = sum(math.ceil(len(sample.tokens) / CANVAS) for sample in samples)
        steps = sum(sample.passes for sample in samples) / canvases
        print(
            f"| {name} | {perplexity:.2f} | {_mean(repetition(s.tokens) for s in samples):.3f} "
            f"| {_mean(distinct_pairs(s.tokens) for s in samples):.3f} | {sum(known) / len(known):.2f} | {ended:.2f} "
            f"| {tokens / len(samples):.0f} | {f'{steps:.1f}' if steps else ''} |",
            flush=True,
        )
        for document, text in list(zip(self.documents, texts, strict=True))[:show]:
            print(f"\n> {document.turns[0].text}\n\n{text}\n")


def _mean(values: object) -> float:
    numbers = list(values)  # type: ignore[call-overload]
    return sum(numbers) / len(numbers)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--diffusion", default="storyteller", help="folder of the diffusion model")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--settings", type=Sampler.parse, nargs="*", default=[Sampler(24, 0.1, 0.2, 0.5)])
    parser.add_argument("--show", type=int, default=0, help="texts to print per line")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only-diffusion", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    evaluation = Evaluation(arguments.checkpoints, arguments.diffusion, samples=arguments.samples)
    print(
        "| | perplexity | repetition | distinct-2 | answered | ended | tokens | steps per canvas |\n|---|---|---|---|---|---|---|---|"
    )
    if not arguments.only_diffusion:
        evaluation.row("the grammar itself", evaluation.real)
        for t, p in ((1.0, 1.0), (0.7, 0.95)):
            evaluation.row(
                f"AR, T = {t}, p = {p}",
                lambda d, t=t, p=p: evaluation.autoregressive(d, temperature=t, top_p=p),
                show=arguments.show,
            )
    for s in arguments.settings:
        name = f"{arguments.diffusion}, {s.steps} steps, bound {s.bound}, t {s.t_min}–{s.t_max}"
        evaluation.row(name, lambda d, s=s: evaluation.diffusion(d, sampler=s), show=arguments.show)


if __name__ == "__main__":
    main()
