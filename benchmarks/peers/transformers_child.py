"""transformers in a process of its own: `python -m benchmarks.peers.transformers_child CHECKPOINT THREADS ROWS`.

It has no server, so requests that wait are answered in static batches: what has arrived, up to ROWS, runs until the last row of the
batch is done.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, DiffusionGemmaForBlockDiffusion

from benchmarks.peers.lines import Lines, answer_lines
from benchmarks.peers.work import Answer, Answers, Done, RealLoad, Request, SameWork


class TransformersChild:
    """`generate()` of the model's own authors."""

    def __init__(self, checkpoint: Path, *, rows: int) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint, padding_side="left")
        loaded: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(checkpoint, dtype=torch.float32)
        self._model = loaded.eval()
        self._rows = rows

    def same_work(self, work: SameWork) -> Done:
        """One static batch after another."""
        started, tokens = time.monotonic(), 0
        for first in range(0, len(work.prompts), work.concurrency):
            batch = list(work.prompts[first : first + work.concurrency])
            answers = self._generate(self._tokenizer(batch, padding=True, return_tensors="pt"), max_tokens=work.tokens)
            tokens += answers.numel()
        return Done(tokens=tokens, seconds=time.monotonic() - started)

    def real_load(self, load: RealLoad) -> Answers:
        """Each batch takes the requests that have arrived by then, in their order."""
        started, answers = time.monotonic(), []
        waiting = list(load.requests)
        while waiting:
            time.sleep(max(0.0, waiting[0].at - (time.monotonic() - started)))
            now = time.monotonic() - started
            batch = [request for request in waiting[: self._rows] if request.at <= now]
            waiting = waiting[len(batch) :]
            tokens = self._answer(batch)
            ended = time.monotonic() - started
            for request, count in zip(batch, tokens, strict=True):
                seconds = ended - request.at  # nothing is to be had before the batch is done
                answers.append(Answer(tokens=count, first_block_seconds=seconds, total_seconds=seconds))
        return Answers(answers=tuple(answers))

    def _answer(self, batch: Sequence[Request]) -> list[int]:
        """How many tokens each request got, the end of turn not counted."""
        turns = [[{"role": "user", "content": request.content}] for request in batch]
        inputs = self._tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, padding=True, return_dict=True, return_tensors="pt"
        )
        sequences = self._generate(inputs, max_tokens=max(request.max_tokens for request in batch)).tolist()
        end = self._tokenizer.eos_token_id
        return [
            (tokens.index(end) if end in tokens[: request.max_tokens] else request.max_tokens)
            for request, tokens in zip(batch, sequences, strict=True)
        ]

    def _generate(self, inputs: Any, *, max_tokens: int) -> torch.Tensor:
        """New tokens [B, max_tokens at most]."""
        prompt = inputs["input_ids"]
        output = self._model.generate(prompt, attention_mask=inputs["attention_mask"], max_new_tokens=max_tokens)
        sequences: torch.Tensor = output.sequences
        return sequences[:, prompt.shape[1] :][:, :max_tokens]


def main() -> None:
    """Load the model, then work for whoever holds the other end of the pipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("rows", type=int)
    options = parser.parse_args()
    lines = Lines()
    torch.set_num_threads(options.threads)
    child = TransformersChild(options.checkpoint, rows=options.rows)
    answer_lines(
        lines,
        {
            "same_work": lambda work: child.same_work(SameWork.model_validate(work)),
            "real_load": lambda load: child.real_load(RealLoad.model_validate(load)),
        },
    )


if __name__ == "__main__":
    main()
