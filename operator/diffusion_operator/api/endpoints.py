"""An AR model that somebody else serves: how it is called among revisions, and what gateways find out about it."""

import hashlib
import json
from enum import StrEnum
from typing import Literal

from pydantic import Field

from .base import ApiModel
from .rollout import RevisionHash
from .spec import FallbackEndpoint

LONGEST_ENDPOINT_MESSAGE = 512


class EndpointState(StrEnum):
    """What became of asking an endpoint for its models."""

    READY = "Ready"
    UNREACHABLE = "Unreachable"
    UNAUTHORIZED = "Unauthorized"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 no secret
    MODEL_MISSING = "ModelMissing"


class EndpointStatus(ApiModel):
    """An endpoint as gateways see it. They show it at `/admin/endpoints`, and the operator writes it into the status."""

    revision: RevisionHash
    state: EndpointState = Field(
        description="Ready, Unreachable, Unauthorized, SecretMissing or ModelMissing: what a gateway found at its last look."
    )
    message: str = Field(
        default="", max_length=LONGEST_ENDPOINT_MESSAGE, description="Why it is not ready, in a sentence."
    )
    scores: list[Literal["chats", "completions"]] | None = Field(
        default=None,
        max_length=2,
        description="Prompts after which it can score a text, by prompt log-probabilities. Empty: none. Absent: not known yet.",
    )

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered, as far as known."""
        return self.state is EndpointState.READY


def endpoint_hash(endpoint: FallbackEndpoint) -> str:
    """8 lower-case hex digits that stand for an endpoint where revisions are named: the same server and model have the same."""
    identity = {"url": endpoint.url.rstrip("/"), "model": endpoint.model}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
