"""What competitors are asked to do and what they answer. Crosses process borders as JSON."""

from typing import Protocol

from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SameWork(_Frozen):
    """Each prompt is answered with exactly `tokens` tokens, `concurrency` prompts at a time."""

    prompts: tuple[str, ...]
    tokens: int
    concurrency: int


class Done(_Frozen):
    """All prompts of a `SameWork` have been answered."""

    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Over all prompts."""
        return self.tokens / self.seconds

    def __str__(self) -> str:
        return f"{self.tokens_per_second:.0f} tokens/s"


class Request(_Frozen):
    """A user's request in a `RealLoad`."""

    at: float  # seconds after the beginning
    content: str  # of the user's turn
    max_tokens: int


class RealLoad(_Frozen):
    """Requests in the order in which they arrive."""

    requests: tuple[Request, ...]


class Answer(_Frozen):
    """What a request got; seconds count from its arrival."""

    tokens: int
    first_block_seconds: float
    total_seconds: float


class Answers(_Frozen):
    """To all requests of a `RealLoad`, in their order."""

    answers: tuple[Answer, ...]

    def __str__(self) -> str:
        tokens, slowest = sum(each.tokens for each in self.answers), max(each.total_seconds for each in self.answers)
        return f"{tokens} tokens in {len(self.answers)} answers, the slowest after {slowest:.1f} s"


class Contestant(Protocol):
    """A competitor that runs. Idle, it must not use the processor."""

    @property
    def pid(self) -> int:
        """The process whose tree does the work."""

    def stop(self) -> None:
        """End its processes."""


class Worker(Contestant, Protocol):
    """One that does the same work as others."""

    def same_work(self, work: SameWork) -> Done:
        """Do it and return when all of it is done."""


class Server(Contestant, Protocol):
    """One that bears a real load."""

    def real_load(self, load: RealLoad) -> Answers:
        """Let the requests arrive at their times; return when the last one has been answered."""
