"""Where the answer of a mask-model row stands between two steps."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from diffusion_worker.engine.row import Row
from diffusion_worker.models.mask_diffusion import BlockCache, MaskedSequence
from diffusion_worker.sizing.costs import MASK_HORIZON


@dataclass(frozen=True)
class MaskedBlock:
    """The block that is denoised now."""

    token_ids: list[int]  # [W]; the mask token where `is_masked`
    is_masked: list[bool]

    def unmasked(self, token_ids: dict[int, int]) -> "MaskedBlock":
        """The block with these tokens at these positions."""
        return MaskedBlock(
            token_ids=[token_ids.get(at, old) for at, old in enumerate(self.token_ids)],
            is_masked=[masked and at not in token_ids for at, masked in enumerate(self.is_masked)],
        )

    def filled(self, token_ids: Sequence[int]) -> list[int]:
        """The tokens that are decided, and these where there still are masks."""
        return [
            guess if masked else token_id
            for token_id, masked, guess in zip(self.token_ids, self.is_masked, token_ids, strict=False)
        ]

    def answer(self, eos_token_ids: Collection[int]) -> list[int] | None:
        """What can be committed: all of it, or what ends at an EOS, once no mask is left there; None before."""
        decided = self.is_masked.index(True) if True in self.is_masked else len(self.token_ids)
        for at, token_id in enumerate(self.token_ids[:decided], start=1):
            if token_id in eos_token_ids:
                return self.token_ids[:at]
        return self.token_ids if decided == len(self.token_ids) else None


@dataclass(eq=False)
class MaskedAnswer:
    """A row's committed tokens, its block, and what its block's steps share."""

    row: Row
    mask_token_id: int
    block_length: int
    committed: list[int] = field(default_factory=list)
    block: MaskedBlock | None = None
    caches: dict[bool, BlockCache] = field(default_factory=dict)  # with the prompt (True), and without for guidance

    def begin_block(self) -> MaskedBlock:
        """A block of masks; the last one is as short as max_tokens leaves room."""
        width = min(self.block_length, self.row.max_tokens - len(self.committed))
        self.block = MaskedBlock(token_ids=[self.mask_token_id] * width, is_masked=[True] * width)
        return self.block

    def commit(self, token_ids: list[int]) -> None:
        """End the block; what its steps shared is of no use to the next one."""
        self.committed += token_ids
        self.block = None
        self.caches = {}

    def sequence(self, *, conditional: bool) -> MaskedSequence:
        """What a pass reads: masks follow the block up to the end of the answer, or to the horizon.

        Without condition the prompt is masks too (LLaDA's guidance).
        """
        if self.block is None:
            raise RuntimeError(f"request {self.row.request_id} has no block")
        prompt = self.row.prompt_token_ids
        start = len(prompt) + len(self.committed)
        end = start + len(self.block.token_ids)
        visible = min(self.row.max_tokens - len(self.committed), max(MASK_HORIZON, self.block_length))
        return MaskedSequence(
            token_ids=[
                *(prompt if conditional else [self.mask_token_id] * len(prompt)),
                *self.committed,
                *self.block.token_ids,
                *[self.mask_token_id] * (visible - len(self.block.token_ids)),
            ],
            start=start,
            end=end,
        )
