"""How the logits of one row are shifted before its next token is drawn: OpenAI's penalties and biases."""

from collections.abc import Mapping

import torch

from diffusion_worker.samplers.penalties import Shifts
from diffusion_worker.wire import GenerateRequest

_ROOM = 64  # tokens at first, beside the biased ones; it doubles


class LogitShifts:
    """Shifts of single tokens: bias - frequency_penalty · count - presence_penalty · [count > 0].

    The counts are of the tokens that the row has generated; its prompt does not count. Only tokens that are shifted
    are stored, as tensors in which each step changes one number: to make them anew in each took longer than a pass.
    """

    def __init__(self, *, presence_penalty: float, frequency_penalty: float, logit_bias: Mapping[int, float]) -> None:
        self._presence_penalty = presence_penalty
        self._frequency_penalty = frequency_penalty
        self._generated: set[int] = set()
        self._place = {token_id: at for at, token_id in enumerate(logit_bias)}  # in the tensors
        room = torch.zeros(_ROOM)
        self._token_ids = torch.cat([torch.tensor(list(logit_bias), dtype=torch.int64), room.long()])
        self._amounts = torch.cat([torch.tensor(list(logit_bias.values()), dtype=torch.float32), room])

    @classmethod
    def of(cls, request: GenerateRequest) -> "LogitShifts | None":
        """What a request asks for; None when that is nothing."""
        if not (request.presence_penalty or request.frequency_penalty or request.logit_bias):
            return None
        return cls(
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            logit_bias=request.logit_bias,
        )

    @property
    def now(self) -> Shifts:
        """What to add to which logits, until the next `count`."""
        return Shifts(self._token_ids[: len(self._place)], self._amounts[: len(self._place)])

    def count(self, token_id: int) -> None:
        """Note that the row has generated a token."""
        penalty = self._frequency_penalty + (0.0 if token_id in self._generated else self._presence_penalty)
        self._generated.add(token_id)
        if penalty:
            at = self._place_of(token_id)
            self._amounts[at] -= penalty

    def _place_of(self, token_id: int) -> int:
        """Its index in the tensors, which grow when there is no room for a new one."""
        at = self._place.setdefault(token_id, len(self._place))
        if at == len(self._token_ids):
            self._token_ids = torch.cat([self._token_ids, torch.zeros_like(self._token_ids)])
            self._amounts = torch.cat([self._amounts, torch.zeros_like(self._amounts)])
        self._token_ids[at] = token_id
        return at
