"""`status.rollout`: the whole memory of a rollout, and what people read of it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, model_validator

from .base import ApiModel

LONGEST_HISTORY = 20
RevisionHash = Annotated[str, Field(max_length=8, description="8 hex digits.")]


class GateName(StrEnum):
    """Gates by the names that they have in spec.rollout.gates; `crashes` has nothing to set."""

    PERPLEXITY_RATIO = "perplexityRatio"
    REPETITION_RATE = "repetitionRate"
    TIME_TO_FIRST_TOKEN = "timeToFirstToken"  # noqa: S105 no secret
    LATENCY_RATIO = "latencyRatio"
    ERROR_RATE = "errorRate"
    CRASHES = "crashes"


class Outcome(StrEnum):
    """What a gate says of a revision."""

    PASS = "Pass"  # noqa: S105 a verdict, no secret
    FAIL = "Fail"
    INCONCLUSIVE = "Inconclusive"
    ERROR = "Error"


class RolloutPhase(StrEnum):
    """Where a rollout is, in one word."""

    WAITING = "Waiting"
    OBSERVING = "Observing"
    HELD = "Held"
    PAUSED = "Paused"
    ROLLBACK_BLOCKED = "RollbackBlocked"
    ROLLED_BACK = "RolledBack"
    PROMOTED = "Promoted"


class PairSums(ApiModel):
    """Sums over pairs of answers."""

    count: float = Field(default=0, description="Pairs.")
    total: float = Field(default=0, description="Sum of the differences of NLL per token, diffusion minus AR.")
    total_squares: float = Field(default=0, description="Sum of their squares.")


class EventCounts(ApiModel):
    """Events among trials."""

    count: float = Field(default=0, description="Trials.")
    events: float = Field(default=0, description="Events among them.")


class Watched(ApiModel):
    """A revision that serves, what it was seen to do, and for how long."""

    revision: str = Field(max_length=8, description="Hash of the revision.")
    ar: str | None = Field(
        default=None, max_length=8, description="The AR revision that it is compared with. Another one: from the start."
    )
    run: int = Field(default=0, ge=0, description="How often the comparison was started anew.")
    step: int = Field(default=0, ge=0, description="Steps that are over, those after promotion included.")
    started_at: datetime | None = Field(
        default=None, description="Since when this step is observed. Absent until gateways have the weight in force."
    )
    observed_seconds: float = Field(default=0, ge=0, description="Observed time in this step.")
    is_observing: bool = Field(default=False, description="Whether time counted when it was accounted for last.")
    accounted_at: datetime | None = Field(default=None, description="Up to when observed time is accounted for.")
    earlier_pairs: PairSums = Field(default_factory=PairSums, description="Pairs of the steps before this one.")
    earlier_repetition: EventCounts = Field(
        default_factory=EventCounts,
        description="Answers of the steps before this one, and those that repeat themselves.",
    )


class GateStatus(ApiModel):
    """What a gate said when it was written down last."""

    gate: GateName = Field(description="Name of the gate, as in spec.rollout.gates, or crashes.")
    verdict: Outcome = Field(description="Pass, Fail, Inconclusive or Error.")
    message: str = Field(max_length=1024, description="Value, limit and samples in a sentence.")
    value: float | None = Field(default=None, description="Measured value.")
    limit: float = Field(description="Its limit.")
    samples: float = Field(default=0, description="What the value rests on.")


class Failure(ApiModel):
    """Why a revision lost its requests, or must lose them."""

    revision: str = Field(max_length=8, description="Hash of the revision.")
    reason: str = Field(max_length=64, description="A gate's name, Aborted or Overdue.")
    message: str = Field(max_length=1024, description="Why, in a sentence.")
    at: datetime = Field(description="When it was decided.")


class Change(ApiModel):
    """One change of weights."""

    at: datetime = Field(description="When.")
    revision: str = Field(max_length=8, description="Whose weight.")
    percent: int = Field(ge=0, le=100, description="The weight from then on.")
    reason: str = Field(max_length=64, description="Why, in a word.")


class RolloutState(ApiModel):
    """A rollout. AR serves what neither `stable` nor `canary` does."""

    phase: RolloutPhase = Field(
        default=RolloutPhase.WAITING,
        description="Waiting: for pods or gateways. Observing: the canary serves its weight and is measured. Held: a gate "
        "does not let it go on. Paused: by spec or a person. RollbackBlocked: it should lose its requests, but nothing "
        "ready could take over. RolledBack: it lost them. Promoted: spec's revision is the stable one.",
    )
    message: str = Field(default="", max_length=1024, description="What it waits for.")
    stable_revision: RevisionHash | None = Field(default=None, description="The promoted diffusion revision.")
    canary_revision: RevisionHash | None = Field(
        default=None, description="The diffusion revision beside the stable arm."
    )
    fallback_revision: RevisionHash | None = Field(
        default=None, description="The AR revision that requests fall back to."
    )
    canary_percent: int = Field(default=0, ge=0, le=100, description="Share of the requests that the canary serves.")
    diffusion_percent: int = Field(default=0, ge=0, le=100, description="Share of the requests that diffusion serves.")
    step: str = Field(default="", max_length=16, description="Which step of how many, such as 3/20.")
    gate_summary: str = Field(
        default="", max_length=64, description="How many gates say what, such as 4 Pass, 1 no data."
    )
    stable: Watched | None = Field(default=None, description="What was seen of the promoted revision. Absent: AR.")
    canary: Watched | None = Field(default=None, description="What was seen of the revision that climbs.")
    held_since: datetime | None = Field(default=None, description="Since when the step has no verdict that moves it.")
    is_overdue: bool = Field(default=False, description="Held for longer than maxHold.")
    failure: Failure | None = Field(
        default=None,
        description="The revision that was rolled back last. It stays away until spec asks for another, or a retry.",
    )
    due: Failure | None = Field(
        default=None, description="A rollback that waits for an arm that can take the requests over."
    )
    is_paused: bool = Field(default=False, description="A person paused by annotation.")
    handled_command: str = Field(default="", max_length=256, description="The annotation that was acted on last.")
    gates: list[GateStatus] = Field(default_factory=list, max_length=16, description="What the gates said last.")
    history: list[Change] = Field(default_factory=list, max_length=LONGEST_HISTORY, description="The last changes.")

    @model_validator(mode="before")
    @classmethod
    def _from_the_first_release(cls, data: Any) -> Any:
        """The first release named the revisions and nothing more: what it promoted stays promoted."""
        if not isinstance(data, dict):
            return data
        found = dict(data)
        for part in ("stable", "canary"):
            revision = found.get(f"{part}Revision")
            if revision and part not in found:
                found[part] = {"revision": revision}
        return found
