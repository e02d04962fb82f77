"""All that a report is made of, and what it asks of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from diffusion_operator.api.models import EndpointStatus, RevisionStatus, RolloutState

from .endpoints import cannot_score
from .observation import NO_PODS, Observation
from .revision import Wanted
from .sized.size import Sized


@dataclass(frozen=True, slots=True)
class Situation:
    """What is asked for, what was decided and what was seen.

    `endpoints` are the AR servers that are not ours, by hash; None: no gateway spoke of it yet.
    """

    wanted: Wanted
    rollout: RolloutState
    revisions: Mapping[str, RevisionStatus]
    replicas: int
    observation: Observation
    lagging: tuple[str, ...]
    sized: Sized
    endpoints: Mapping[str, EndpointStatus | None]

    @property
    def routed(self) -> list[str]:
        """Hashes of what requests are sent to, by share or as the fallback."""
        rollout = self.rollout
        hashes = (rollout.stable_revision, rollout.canary_revision, rollout.fallback_revision)
        return [hash_ for hash_ in hashes if hash_]

    @property
    def parts(self) -> set[str]:
        """Hashes of all revisions that have a part to play now or soon."""
        return {self.wanted.diffusion.hash, self.wanted.ar_hash, *self.routed}

    @property
    def coming(self) -> list[str]:
        """Hashes of wanted revisions that do not have all their pods yet, and may have them."""
        wanted = [revision.hash for revision in (self.wanted.diffusion, self.wanted.ar) if revision]
        return [
            hash_
            for hash_ in wanted
            if hash_ not in self.sized.held and self.revisions[hash_].ready_pods < self.replicas
        ]

    @property
    def stuck(self) -> list[str]:
        """Revisions whose pods do not start. Also one that serves: pods that should replace its pods may be stuck as well."""
        return sorted(hash_ for hash_ in self.parts if self.observation.pods.get(hash_, NO_PODS).stuck)

    @property
    def cannot_score(self) -> bool:
        """Whether the AR server is known to score no text."""
        return cannot_score(self.endpoints.get(self.rollout.fallback_revision or self.wanted.ar_hash))

    def is_ready(self, hash_: str) -> bool:
        """Whether it can answer requests now."""
        if hash_ in self.endpoints:
            status = self.endpoints[hash_]
            return status is not None and status.is_ready
        return self.revisions[hash_].ready_pods > 0

    def named(self, hash_: str) -> str:
        """What it is called in a sentence."""
        if hash_ in self.endpoints:
            return f"endpoint {hash_}"
        revision = self.revisions[hash_]
        return f"{revision.template.kind} revision {hash_} ({revision.ready_pods} ready)"

    def explained(self, hash_: str) -> str:
        """How it is, in a sentence."""
        if hash_ in self.endpoints:
            status = self.endpoints[hash_]
            found = f"{status.state}: {status.message}" if status else "no gateway has asked it yet"
            return f"endpoint {hash_} is not ready: {found.rstrip('.')}."
        revision = self.revisions[hash_]
        waiting = self.observation.pods.get(hash_, NO_PODS).waiting_for
        numbers = f"{revision.template.kind} revision {hash_} has {revision.ready_pods} of {self.replicas} pods ready"
        return f"{numbers}: {waiting}." if waiting else f"{numbers}."
