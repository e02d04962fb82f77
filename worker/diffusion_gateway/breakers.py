"""The breakers of all pods that were asked, as long as they are in the table."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from diffusion_operator.api.status import RouteArm

from .breaker import Breaker, BreakerSettings, State
from .routes import Model


@dataclass(frozen=True)
class _Owned:
    model: str
    revision: str
    breaker: Breaker


class Breakers:
    """One per model, arm and pod."""

    def __init__(self, settings: BreakerSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._settings = settings
        self._clock = clock
        self._pods: dict[str, _Owned] = {}
        """By `host:port`."""

    def of(self, model: Model, arm: RouteArm, target: str) -> Breaker:
        """The breaker of a pod, by its `host:port`. A pod of another revision that got the address starts anew."""
        known = self._pods.get(target)
        if known is None or (known.model, known.revision) != (model.key, arm.revision):
            known = self._pods[target] = _Owned(model.key, arm.revision, Breaker(self._settings))
        return known.breaker

    def keep_only(self, targets: Iterable[str]) -> None:
        """Forget pods that are no longer ready: one that comes back was restarted, or has recovered."""
        there = set(targets)
        self._pods = {target: known for target, known in self._pods.items() if target in there}

    def open_among(self, targets: Iterable[str]) -> int:
        """How many of these pods have a breaker that is not closed."""
        now = self._clock()
        known = (self._pods.get(target) for target in targets)
        return sum(pod is not None and pod.breaker.state(now) != State.CLOSED for pod in known)
