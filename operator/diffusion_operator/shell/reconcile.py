"""One pass over one resource: gather → decide → write."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import structlog

from diffusion_operator.adapters import clock
from diffusion_operator.adapters.cluster import Cluster, LiveChild, Unreadable
from diffusion_operator.adapters.errors import AdapterError, InvalidError, NotFoundError
from diffusion_operator.adapters.gateways import Gateways
from diffusion_operator.adapters.lease import Alive
from diffusion_operator.adapters.metrics import ModelKey, NoMetrics
from diffusion_operator.adapters.sizing import SizingSource
from diffusion_operator.api import labels
from diffusion_operator.api.models import DiffusionModel, DiffusionModelStatus, ObjectMeta, Phase
from diffusion_operator.core.advance import has_command
from diffusion_operator.core.children import Child, ChildKind, children, made_of
from diffusion_operator.core.drift import is_in_place
from diffusion_operator.core.names import child_name
from diffusion_operator.core.observation import Observation, ObservedGateway
from diffusion_operator.core.rollout import Reading, Run, last_starts, resumed_runs
from diffusion_operator.core.sized.observation import NOTHING_SEEN
from diffusion_operator.core.step import Decision, Event, Settings, refuse, step

from .crashes import CrashLog
from .decision_log import log_decision
from .measuring import Measuring, Memory
from .metrics import Metrics
from .sizing import observe

# Stands for gateways that were not asked: like one that did not answer, it may send requests anywhere.
_NOT_ASKED = (ObservedGateway(name="(not asked)", answered=False),)


@dataclass(frozen=True, slots=True)
class Passed:
    """How a pass ended.

    `phase` is None when the resource is gone. `look_again_seconds` is None when only a change is worth another pass.
    `rejected` is what the API server said when it refused a child; the next pass must be given it.
    """

    phase: Phase | None
    look_again_seconds: float | None = None
    rejected: str = ""


class Reconciler:
    """Makes passes. What must last is in the status; what a restart may lose is in each loop's memory.

    `earlier` is how long the process before was alive; None when that is not known.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        gateways: Gateways,
        settings: Settings,
        metrics: Metrics,
        sizing: SizingSource | None = None,
        measuring: Measuring | None = None,
        crashes: CrashLog | None = None,
        earlier: Alive | None = None,
    ) -> None:
        self._cluster = cluster
        self._gateways = gateways
        self._settings = settings
        self._metrics = metrics
        self._sizing = sizing
        self._measuring = measuring or Measuring(NoMetrics())
        self._crashes = crashes or CrashLog()
        self.earlier = earlier
        self._log = structlog.get_logger("reconcile")

    async def run_once(self, namespace: str, name: str, *, memory: Memory, rejected: str = "") -> Passed:
        """Make one pass. What `memory` holds is used, and renewed when the pass succeeds.

        Raises:
            AdapterError: the API server could not be read or written; nothing is lost, the next pass does it.
        """
        try:
            model = await self._cluster.read_model(namespace, name)
        except NotFoundError:
            self._crashes.forget(namespace, name)
            self._metrics.rollouts.forget(namespace, name)
            return Passed(phase=None)
        if isinstance(model, Unreadable):
            decision = refuse(model.resource, model.message, now=clock.now())
            metadata = await self._write_status(model.resource.metadata, model.resource.status, decision)
            if metadata is not model.resource.metadata:
                await self._tell(metadata, decision.events)
            return Passed(phase=decision.status.phase)
        if model.metadata.deletion_timestamp:
            # The garbage collector removes the children, by their owner references.
            return Passed(phase=model.status.phase)

        live = [child for child in await self._cluster.live_children(namespace, name) if _is_of(model, child)]
        readings = memory.take_readings(model.status.rollout)
        observed = await self._observe(model, live, memory=memory, readings=readings, rejected=rejected)
        decision = await self._decide(model, observed, memory)
        # Status first: what children are made of must be remembered before there is any, and a conflict must stop us
        # here.
        metadata = await self._write_status(model.metadata, model.status, decision)
        decided = model.model_copy(update={"metadata": metadata, "status": decision.status})
        try:
            refusal = await self._put_in_place(decided, live, memory)
            await self._remove(decision.remove, live, namespace=namespace)
        finally:
            # Pods first: nobody waits for events. What was decided is told also when a child could not be written.
            if metadata is not model.metadata:
                await self._tell(metadata, decision.events)
        # A refusal that is new must get into the status, and one that is over out of it.
        look_again = 0.0 if refusal != rejected else self._after(decided, decision, memory, observed)
        return Passed(phase=decision.status.phase, look_again_seconds=look_again, rejected=refusal)

    async def _observe(
        self,
        model: DiffusionModel,
        live: Iterable[LiveChild],
        *,
        memory: Memory,
        readings: Mapping[str, Reading] | None,
        rejected: str,
    ) -> Observation:
        namespace, name = model.metadata.namespace, model.metadata.name
        staying = [child for child in live if not child.is_going]
        pods = {
            child.revision: await self._cluster.pods(child, namespace=namespace)
            for child in staying
            if child.kind is ChildKind.DEPLOYMENT
        }
        return Observation(
            pods=pods,
            # A Job is no object of a revision.
            children=frozenset(child.revision for child in staying if child.kind is not ChildKind.JOB),
            gateways=_NOT_ASKED,
            rejected=rejected,
            crashes=self._crashes.of(namespace, name, since=last_starts(model.status.rollout)),
            readings=readings or {},
            is_measured=readings is not None,
            runs=self._resumed(model) if memory.runs is None else memory.runs,
            starts=memory.starts,
            endpoints=await self._gateways.endpoints(namespace, name) if _has_endpoint(model) else (),
            sizing=await observe(model, staying, pods=pods, source=self._sizing) if self._sizing else NOTHING_SEEN,
        )

    def _resumed(self, model: DiffusionModel) -> Mapping[str, Run]:
        """What the process before had counted when it ended."""
        if self.earlier is None:
            return {}
        state = model.status.rollout
        return resumed_runs(state, alive_since=self.earlier.since, alive_until=self.earlier.until)

    async def _decide(self, model: DiffusionModel, observed: Observation, memory: Memory) -> Decision:
        now = clock.now()
        if not observed.is_measured and not memory.needs_gateways:
            decision = step(model, observed, settings=self._settings, now=now)
            if not decision.needs_gateways:
                return decision
        # Time counts, a weight moves and something old goes only by what gateways have in force.
        gateways = await self._gateways.in_force(
            model.metadata.namespace, model.metadata.name, generation=model.status.routes.generation
        )
        decision = step(model, replace(observed, gateways=gateways), settings=self._settings, now=now)
        memory.needs_gateways = decision.needs_gateways
        return decision

    def _after(self, model: DiffusionModel, decision: Decision, memory: Memory, observed: Observation) -> float | None:
        """Remember what the rollout decided, have metrics read when they are due, and say when to pass again."""
        metadata, state = model.metadata, model.status.rollout
        limits = decision.intent.policy.gates if decision.intent else {}
        self._metrics.rollouts.show(metadata.namespace, metadata.name, state, limits=limits)
        if decision.rollout is None or decision.intent is None:
            return decision.look_again_seconds
        memory.runs, memory.starts = decision.rollout.runs, decision.rollout.starts
        if observed.is_measured or decision.rollout.is_settling:
            memory.look_in(decision.rollout.requeue_after)
        if has_command(metadata, state):
            memory.look_in(0.0)  # it waits for what this step showed
        self._measuring.plan(memory, ModelKey(metadata.namespace, metadata.name), state, decision.intent)
        return decision.look_again_seconds

    async def _write_status(self, metadata: ObjectMeta, before: DiffusionModelStatus, decision: Decision) -> ObjectMeta:
        """Write what changed. Returns the metadata after it: the same object when nothing did."""
        if decision.status == before:
            return metadata
        after = await self._cluster.write_status(metadata, decision.status)
        self._metrics.writes.labels(verb="update", kind=f"{labels.KIND}/status").inc()
        self._log.info(
            "status written",
            namespace=metadata.namespace,
            model=metadata.name,
            phase=decision.status.phase,
            routes=decision.status.routes.generation,
            arms=[f"{arm.role}:{arm.revision}:{arm.percent}" for arm in decision.status.routes.arms],
        )
        log_decision(self._log, metadata, decision)
        return after

    async def _tell(self, metadata: ObjectMeta, events: Iterable[Event]) -> None:
        for event in events:
            try:
                await self._cluster.record(metadata, event)
                self._metrics.writes.labels(verb="create", kind="Event").inc()
            except AdapterError as error:
                # Events are for reading along. The state is in the status.
                self._log.warning("event not written", model=metadata.name, reason=event.reason, error=str(error))

    async def _put_in_place(self, decided: DiffusionModel, live: Collection[LiveChild], memory: Memory) -> str:
        """Write what is missing or different. Returns what was refused, empty when nothing was."""
        versions = (made_of(decided), frozenset(child.version for child in live))
        if versions == memory.in_place:
            return ""
        by_name = {(child.kind, child.name): child for child in live}
        places = ((child, by_name.get((child.kind, child.name))) for child in children(decided))
        wrong = [
            (child, present)
            for child, present in places
            if present is None or not is_in_place(child.manifest, present.manifest)
        ]
        memory.in_place = None if wrong else versions
        if not wrong:
            return ""
        refused = [await self._apply(child) for child, _ in wrong]
        self._log.info(
            "children applied",
            namespace=decided.metadata.namespace,
            model=decided.metadata.name,
            missing=[f"{child.kind}/{child.name}" for child, present in wrong if present is None],
            different=[f"{child.kind}/{child.name}" for child, present in wrong if present is not None],
        )
        return "; ".join(filter(None, refused))

    async def _apply(self, child: Child) -> str:
        try:
            await self._cluster.apply(child)
        except InvalidError as error:
            return str(error)
        self._metrics.writes.labels(verb="apply", kind=child.kind.value).inc()
        return ""

    async def _remove(self, revisions: frozenset[str], live: Iterable[LiveChild], *, namespace: str) -> None:
        for child in live:
            if child.revision in revisions and not child.is_going:
                await self._cluster.delete(child, namespace=namespace)
                self._metrics.writes.labels(verb="delete", kind=child.kind.value).inc()
                self._log.info("child removed", namespace=namespace, kind=child.kind.value, name=child.name)


def _has_endpoint(model: DiffusionModel) -> bool:
    """Whether an AR server of others has a part to play, by spec or still by the routes."""
    return model.spec.fallback.endpoint is not None or any(arm.endpoint for arm in model.status.routes.arms)


def _is_of(model: DiffusionModel, child: LiveChild) -> bool:
    """Whether an object with our labels is ours.

    Not ours are copies that people make, and what an earlier resource of the same name left for the garbage collector:
    neither may be removed by us, and the ready pods of the latter may be gone in a moment. One that nobody owns was
    orphaned on purpose and is taken over.
    """
    name = child_name(model.metadata.name, child.revision)
    return child.name == name and child.owner in {"", model.metadata.uid}
