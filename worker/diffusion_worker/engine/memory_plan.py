"""Which rows may run together: by what they take of the memory that was planned for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from diffusion_worker.engine.memory_throttle import Throttle
from diffusion_worker.engine.row import Row
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.sizing import EngineCosts, Footprint, Workload, footprint, row_kv_bytes, score_kv_bytes
from diffusion_worker.sizing.cache import GRANULARITY, rounded_up
from diffusion_worker.sizing.costs import Layers


@dataclass(frozen=True)
class PlannedModel:
    """What the costs of a row follow from. `longest`: one row of as many tokens as the limits allow."""

    facts: ModelFacts
    longest: Workload
    costs: EngineCosts

    def footprint(self, *, rows: int, tokens: int) -> Footprint:
        """Of so many rows of so many tokens."""
        return _footprint(self, rows, min(rounded_up(tokens, GRANULARITY), self.longest.tokens))

    def kv(self, row: Row) -> int:
        """Most that the row's keys and values take before it ends."""
        load = replace(self.longest, guidance=_has_guidance(row))
        return row_kv_bytes(self.facts, load, self.costs, prompt=len(row.prompt_token_ids), max_tokens=row.max_tokens)

    def bytes_of(self, rows: Sequence[Row]) -> int:
        """Most that rows which run together take: keys and values of each, and the step of all."""
        tokens = max(_tokens(row) for row in rows)
        if self.costs.layers is Layers.PADDED:  # all are as long as the longest
            longest = max(rows, key=_tokens)
            kv = len(rows) * self.kv(longest) + score_kv_bytes(self.facts, self.longest, self.costs)
        else:
            kv = sum(self.kv(row) for row in rows)
        canvases = len(rows)
        if (
            self.costs.layers is Layers.PACKED
        ):  # guidance adds a canvas to a row; mask models compute it in a second pass
            canvases += sum(_has_guidance(row) for row in rows)
        return kv + self.footprint(rows=canvases, tokens=tokens).step

    def rows_within(self, budget: int, *, at_most: int) -> int:
        """How many of the longest rows fit."""
        rows = 0
        while rows < at_most:
            next_one = self.footprint(rows=rows + 1, tokens=self.longest.tokens)
            if next_one.kv + next_one.step > budget:
                break
            rows += 1
        return rows


class RowMemory:
    """Decides which rows are admitted. Without a plan only the number of rows counts."""

    def __init__(
        self, *, max_rows: int, model: PlannedModel | None = None, budget: int = 0, throttle: Throttle | None = None
    ) -> None:
        """`budget`: bytes for keys, values and steps, with a `model`."""
        self._max_rows = max_rows
        self._model = model
        self._budget = budget
        self._throttle = throttle or Throttle()

    def never_fits(self, row: Row) -> str | None:
        """Why the row could not even run alone; None: it could."""
        if self._model is None:
            return None
        needed = self._model.bytes_of([row])
        if needed <= self._budget:
            return None
        guidance = " with guidance" if _has_guidance(row) else ""
        return (
            f"{len(row.prompt_token_ids)} tokens of prompt and up to {row.max_tokens} of answer{guidance} need {needed:,} "
            f"bytes of memory, and this worker has {self._budget:,} for requests; ask for fewer tokens"
        )

    def fits(self, running: Sequence[Row], row: Row, *, now: float) -> bool:
        """Whether a row may start beside those that run. Alone every row may."""
        if not running:
            return True
        self._throttle.recover(now)
        share = self._throttle.share
        if len(running) >= math.floor(self._max_rows * share):
            return False
        return self._model is None or self._model.bytes_of([*running, row]) <= self._budget * share

    def failed(self, now: float) -> None:
        """An allocation has failed: fewer rows may run from now on."""
        self._throttle.failed(now)


def _tokens(row: Row) -> int:
    return len(row.prompt_token_ids) + row.max_tokens


def _has_guidance(row: Row) -> bool:
    return row.settings is not None and row.settings.guidance_scale > 0


@lru_cache(maxsize=4096)
def _footprint(model: PlannedModel, rows: int, tokens: int) -> Footprint:
    return footprint(model.facts, replace(model.longest, rows=rows, tokens=tokens), model.costs)
