"""How the logits of one row are shifted before its next token is drawn: OpenAI's penalties and biases."""

from collections.abc import Mapping

from diffusion_worker.wire import GenerateRequest


class LogitShifts:
    """Shifts of single tokens: bias - frequency_penalty · count - presence_penalty · [count > 0].

    The counts are of the tokens that the row has generated; its prompt does not count. Only tokens that are shifted
    are stored.
    """

    def __init__(self, *, presence_penalty: float, frequency_penalty: float, logit_bias: Mapping[int, float]) -> None:
        self._presence_penalty = presence_penalty
        self._frequency_penalty = frequency_penalty
        self._generated: set[int] = set()
        self._shifts = dict(logit_bias)

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
    def by_token(self) -> Mapping[int, float]:
        """What to add to the logit of each token id."""
        return self._shifts

    def count(self, token_id: int) -> None:
        """Note that the row has generated a token."""
        penalty = self._frequency_penalty + (0.0 if token_id in self._generated else self._presence_penalty)
        self._generated.add(token_id)
        if penalty:
            self._shifts[token_id] = self._shifts.get(token_id, 0.0) - penalty
