"""A line in the log for each decision about a rollout, with all that it rested on: what `explain` cannot tell any more."""

import structlog

from diffusion_operator.api.models import ObjectMeta
from diffusion_operator.core.step import Decision


def log_decision(log: structlog.stdlib.BoundLogger, metadata: ObjectMeta, decision: Decision) -> None:
    """Log what happened to a rollout, if anything did."""
    if decision.rollout is None or not decision.rollout.events:
        return
    state = decision.status.rollout
    log.info(
        "rollout",
        namespace=metadata.namespace,
        model=metadata.name,
        events=[f"{event.reason}: {event.message}" for event in decision.rollout.events],
        phase=state.phase,
        stable=state.stable_revision,
        canary=state.canary_revision,
        percent=state.canary_percent,
        verdicts={
            revision: [
                {
                    "gate": verdict.gate,
                    "verdict": verdict.outcome,
                    "value": verdict.value,
                    "limit": verdict.limit,
                    "samples": verdict.samples,
                }
                for verdict in verdicts
            ]
            for revision, verdicts in decision.rollout.verdicts.items()
        },
    )
