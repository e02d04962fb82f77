"""The decision under anything that may happen: pods come and go, spec changes, gateways lag, the operator forgets nothing but its memory."""

from typing import Any

from diffusion_operator.api.models import (
    DiffusionModel,
    EndpointState,
    EndpointStatus,
    FallbackEndpoint,
    Routes,
    endpoint_hash,
)
from diffusion_operator.core.children import children
from diffusion_operator.core.gates import Crashes
from diffusion_operator.core.observation import Observation, ObservedGateway, ObservedPods
from diffusion_operator.core.step import Decision
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.operator.builders import a_model, decide

STEPS = st.sampled_from([None, 5, 10, 20])
AR_SOURCES = st.sampled_from(["file:///models/ar", "file:///models/other-ar"])
ENDPOINTS = [FallbackEndpoint(url="http://vllm/v1", model=model) for model in ("twin", "sibling")]
SERVERS = {endpoint_hash(endpoint) for endpoint in ENDPOINTS}


class World(RuleBasedStateMachine):
    """A resource, its pods, and gateways that follow its routes with a delay."""

    def __init__(self) -> None:
        super().__init__()
        self.model: DiffusionModel = a_model()
        self.ready: dict[str, int] = {}
        self.objects: set[str] = set()
        self.was_ready: set[str] = set()
        self.outside: dict[str, EndpointState] = {}
        """What gateways find about servers that are not ours."""
        self.in_force: list[Routes] = []
        self.reachable: list[bool] = []
        self.decision: Decision | None = None
        self.crashes: dict[str, Crashes] = {}

    @initialize(gateways=st.integers(0, 2))
    def start(self, gateways: int) -> None:
        self.in_force = [Routes() for _ in range(gateways)]
        self.reachable = [True] * gateways

    @rule(
        steps=STEPS,
        ar=AR_SOURCES,
        percent=st.sampled_from([1, 5, 50, 99, 100]),
        paused=st.booleans(),
        replicas=st.integers(1, 3),
        endpoint=st.sampled_from([None, *ENDPOINTS]),
    )
    def change_spec(
        self,
        steps: int | None,
        ar: str,
        percent: int,
        paused: bool,
        replicas: int,
        endpoint: FallbackEndpoint | None,
    ) -> None:
        fallback: dict[str, Any] = {"endpoint": endpoint.to_wire()} if endpoint else {"model": {"source": ar}}
        spec: dict[str, Any] = {
            "fallback": fallback,
            "rollout": {"initialPercent": percent, "paused": paused},
            "replicas": replicas,
        }
        if steps:
            spec["sampler"] = {"maxDenoisingSteps": steps}
        changed = a_model(**spec)
        self.model = self.model.model_copy(update={"spec": changed.spec})

    @rule(revision=st.sampled_from(sorted(SERVERS)), state=st.sampled_from([None, *EndpointState]))
    def gateways_find_a_server(self, revision: str, state: EndpointState | None) -> None:
        self.outside.pop(revision, None)
        if state:
            self.outside[revision] = state

    @precondition(lambda self: self.objects)
    @rule(data=st.data(), pods=st.integers(0, 3))
    def pods_change(self, data: st.DataObject, pods: int) -> None:
        revision = data.draw(st.sampled_from(sorted(self.objects)))
        self.ready[revision] = pods

    @precondition(lambda self: self.serving())
    @rule(data=st.data(), times=st.integers(0, 2))
    def pods_crash(self, data: st.DataObject, times: int) -> None:
        self.crashes = {data.draw(st.sampled_from(sorted(self.serving()))): Crashes(times)}

    def serving(self) -> set[str]:
        return {arm.revision for arm in self.model.status.routes.arms if arm.percent}

    @precondition(lambda self: self.in_force)
    @rule(data=st.data())
    def a_gateway_follows(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.in_force) - 1))
        self.in_force[index] = self.model.status.routes

    @precondition(lambda self: self.in_force)
    @rule(data=st.data(), reachable=st.booleans())
    def a_gateway_is_cut_off_or_back(self, data: st.DataObject, reachable: bool) -> None:
        self.reachable[data.draw(st.integers(0, len(self.in_force) - 1))] = reachable

    @rule()
    def the_operator_looks(self) -> None:
        # Crashes count from a revision's first weight on.
        self.crashes = {revision: found for revision, found in self.crashes.items() if revision in self.serving()}
        observation = self.observe()
        self.was_ready |= {revision for revision, pods in self.ready.items() if pods}
        self.was_ready |= {revision for revision, state in self.outside.items() if state is EndpointState.READY}
        self.decision = decide(self.model, observation)
        for revision in self.decision.remove:
            for gateway in self.in_force:
                assert revision not in {arm.revision for arm in gateway.arms}, "a gateway still sends requests there"
        assert self.decision.status.routes.arms or not self.model.status.routes.arms, "what serves goes on"
        self.model = self.model.model_copy(update={"status": self.decision.status})
        self.objects |= {child.revision for child in children(self.model)}
        self.objects -= self.decision.remove
        for revision in self.decision.remove:
            self.ready.pop(revision, None)
        again = decide(self.model, self.observe())
        assert again.status.routes == self.decision.status.routes, "one look, one change of the routes"
        if self.decision.look_again_seconds is None:
            assert (again.status, again.remove) == (self.decision.status, frozenset())
            assert again.events == ()

    def observe(self) -> Observation:
        return Observation(
            pods={revision: ObservedPods(ready=pods) for revision, pods in self.ready.items()},
            children=frozenset(self.objects),
            crashes=self.crashes,
            gateways=tuple(
                ObservedGateway(
                    name=str(index),
                    answered=self.reachable[index],
                    generation=routes.generation if self.reachable[index] else None,
                    revisions=frozenset(arm.revision for arm in routes.arms) if self.reachable[index] else frozenset(),
                )
                for index, routes in enumerate(self.in_force)
            ),
            endpoints=tuple(
                EndpointStatus(revision=revision, state=state) for revision, state in sorted(self.outside.items())
            ),
        )

    @invariant()
    def percents_sum_to_100_or_there_is_no_arm(self) -> None:
        arms = self.model.status.routes.arms
        assert sum(arm.percent for arm in arms) == (100 if arms else 0)

    @invariant()
    def only_what_was_ready_once_is_routed(self) -> None:
        assert {arm.revision for arm in self.model.status.routes.arms} <= self.was_ready

    @invariant()
    def what_is_routed_has_its_objects(self) -> None:
        routed = {arm.revision for arm in self.model.status.routes.arms}
        routed |= {arm.revision for gateway in self.in_force for arm in gateway.arms}
        assert routed - SERVERS <= self.objects
        assert not self.objects & SERVERS

    @invariant()
    def what_is_routed_can_be_rebuilt_from_the_status(self) -> None:
        known = {revision.hash for revision in self.model.status.revisions}
        arms = self.model.status.routes.arms
        assert {arm.revision for arm in arms if not arm.endpoint} <= known
        assert {arm.revision for arm in arms if arm.endpoint} == {arm.revision for arm in arms} & SERVERS

    @invariant()
    def each_revision_is_there_once(self) -> None:
        hashes = [revision.hash for revision in self.model.status.revisions]
        assert len(hashes) == len(set(hashes))

    @invariant()
    def the_fallback_gets_no_share(self) -> None:
        assert all(arm.percent == 0 for arm in self.model.status.routes.arms if arm.role == "fallback")

    def teardown(self) -> None:
        """Left alone, with healthy pods and gateways, it comes to rest with what spec asks for and nothing else."""
        self.reachable = [True] * len(self.in_force)
        self.crashes = {}
        self.outside = dict.fromkeys(SERVERS, EndpointState.READY)
        for _ in range(4):
            self.the_operator_looks()
            self.ready = dict.fromkeys(self.objects, self.model.spec.replicas or 1)
            self.in_force = [self.model.status.routes for _ in self.in_force]
        assert self.objects == {revision.hash for revision in self.model.status.revisions}
        assert self.decision is not None
        assert self.decision.look_again_seconds is None
        assert len(self.objects) <= 3, "the promoted revision, the wanted one, AR"


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
