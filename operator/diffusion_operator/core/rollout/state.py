"""`status.rollout`: the whole memory of a rollout."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from diffusion_operator.api.base import ApiModel
from diffusion_operator.core.gates import GateName
from diffusion_operator.core.verdict import Outcome

LONGEST_HISTORY = 20


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

    phase: RolloutPhase = Field(default=RolloutPhase.WAITING, description="Where the rollout is.")
    message: str = Field(default="", max_length=1024, description="What it waits for.")
    stable: Watched | None = Field(default=None, description="The promoted diffusion revision. Absent: AR.")
    canary: Watched | None = Field(default=None, description="The revision that climbs.")
    canary_percent: int = Field(default=0, ge=0, le=100, description="Its weight.")
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
