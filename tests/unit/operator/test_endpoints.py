"""`fallback.endpoint`: an AR server of others plays AR's part as far as gateways find it able to."""

from typing import Any

import pytest
from diffusion_operator.api.models import DiffusionModel, EndpointState, EndpointStatus, endpoint_hash, parse
from diffusion_operator.core.endpoints import endpoint_statuses
from diffusion_operator.core.gates import GateName
from diffusion_operator.core.observation import Observation

from tests.unit.operator.builders import a_model, after, ar, decide, diffusion, reason, seen, shares

ENDPOINT = {"url": "http://vllm.models.svc:8000/v1", "model": "twin"}
MODEL = a_model(fallback={"endpoint": ENDPOINT})


def outside(model: DiffusionModel) -> str:
    assert model.spec.fallback.endpoint is not None
    return endpoint_hash(model.spec.fallback.endpoint)


OUTSIDE = outside(MODEL)


def said(state: EndpointState = EndpointState.READY, *, revision: str = OUTSIDE, **more: Any) -> EndpointStatus:
    return EndpointStatus(revision=revision, state=state, **{"scores": ["chats", "completions"], **more})


def with_endpoints(observation: Observation, *reports: EndpointStatus) -> Observation:
    return Observation(
        pods=observation.pods, children=observation.children, gateways=observation.gateways, endpoints=reports
    )


READY = with_endpoints(seen(), said())


def message(model: DiffusionModel, type_: str) -> str:
    return next(c.message for c in model.status.conditions if c.type == type_)


def test_it_serves_until_diffusion_does_and_has_no_pods() -> None:
    model = after(MODEL, READY)
    assert shares(model) == [("stable", OUTSIDE, 100), ("fallback", OUTSIDE, 0)]
    arm = model.status.routes.arms[0]
    assert arm.endpoint is not None
    assert (arm.kind, arm.service, arm.endpoint.to_wire()) == ("ar", "", ENDPOINT)
    assert [revision.hash for revision in model.status.revisions] == [diffusion(MODEL)]
    assert reason(model, "Ready") == ("True", "Serving")
    assert reason(model, "FallbackAvailable") == ("True", "EndpointReady")


def test_a_canary_climbs_beside_it() -> None:
    model = after(MODEL, READY, with_endpoints(seen([diffusion(MODEL)]), said()))
    assert shares(model) == [
        ("stable", OUTSIDE, 95),
        ("canary", diffusion(MODEL), 5),
        ("fallback", OUTSIDE, 0),
    ]
    assert model.status.rollout.canary is not None
    assert model.status.rollout.canary.ar == OUTSIDE


def test_nothing_is_routed_to_it_before_a_gateway_finds_it_ready() -> None:
    unknown = after(MODEL, seen([diffusion(MODEL)]))
    assert shares(unknown) == []
    assert reason(unknown, "FallbackAvailable") == ("Unknown", "EndpointUnknown")
    assert reason(unknown, "Progressing") == ("True", "WaitingForStable")


@pytest.mark.parametrize(
    ("state", "named"),
    [
        (EndpointState.UNREACHABLE, "EndpointUnreachable"),
        (EndpointState.UNAUTHORIZED, "EndpointUnauthorized"),
        (EndpointState.SECRET_MISSING, "SecretMissing"),
        (EndpointState.MODEL_MISSING, "EndpointModelMissing"),
    ],
)
def test_one_that_fails_keeps_its_place_and_says_why(state: EndpointState, named: str) -> None:
    model = after(MODEL, READY, with_endpoints(seen(), said(state, message="what happened")))
    assert shares(model) == [("stable", OUTSIDE, 100), ("fallback", OUTSIDE, 0)]
    assert reason(model, "FallbackAvailable") == ("False", named)
    assert "what happened" in message(model, "FallbackAvailable")
    assert reason(model, "Ready") == ("False", "NoReadyPod")


def test_one_that_fails_beside_a_promoted_revision_degrades() -> None:
    spec: dict[str, Any] = {"fallback": {"endpoint": ENDPOINT}, "rollout": {"initialPercent": 100}}
    pods = seen([diffusion(MODEL)])
    model = after(a_model(**spec), with_endpoints(pods, said()), with_endpoints(pods, said()))
    assert shares(model) == [("stable", diffusion(MODEL), 100), ("fallback", OUTSIDE, 0)]
    down = after(model, with_endpoints(pods, said(EndpointState.UNREACHABLE)))
    assert down.status.phase == "Degraded"
    assert reason(down, "Ready") == ("True", "Serving")


def test_a_server_that_cannot_score_is_told_and_perplexity_is_not_judged() -> None:
    pods = seen([diffusion(MODEL)])
    model = after(MODEL, with_endpoints(seen(), said(scores=[])))
    assert reason(model, "FallbackAvailable") == ("True", "EndpointCannotScore")
    decision = decide(model, with_endpoints(pods, said(scores=[])))
    assert decision.intent is not None
    assert GateName.PERPLEXITY_RATIO not in decision.intent.policy.gates
    assert GateName.LATENCY_RATIO in decision.intent.policy.gates


def test_while_it_is_not_known_whether_it_scores_perplexity_is_judged() -> None:
    decision = decide(MODEL, with_endpoints(seen(), said(scores=None)))
    assert decision.intent is not None
    assert GateName.PERPLEXITY_RATIO in decision.intent.policy.gates


def test_what_no_gateway_speaks_of_stays_as_it_was() -> None:
    model = after(MODEL, READY)
    assert after(model, seen()).status == model.status


def test_another_server_takes_over_once_it_is_ready() -> None:
    model = after(MODEL, READY)
    other = {"endpoint": {**ENDPOINT, "model": "sibling"}}
    new = outside(a_model(fallback=other))
    changed = after(model, with_endpoints(seen(), said()), fallback=other)
    assert shares(changed)[0] == ("stable", OUTSIDE, 100)
    assert reason(changed, "FallbackAvailable") == ("True", "EndpointReady")
    failing = after(changed, with_endpoints(seen(), said(), said(EndpointState.MODEL_MISSING, revision=new)))
    assert shares(failing)[0] == ("stable", OUTSIDE, 100)
    taken = after(failing, with_endpoints(seen(), said(), said(revision=new)))
    assert shares(taken) == [("stable", new, 100), ("fallback", new, 0)]
    assert [status.revision for status in taken.status.endpoints] == [new]


def test_our_own_ar_serves_until_the_server_does_and_goes_then() -> None:
    old = a_model()
    model = after(old, seen([ar(old)]))
    spec = {"fallback": {"endpoint": ENDPOINT}}
    waiting = after(model, seen([ar(old)]), **spec)
    assert shares(waiting) == [("stable", ar(old), 100), ("fallback", ar(old), 0)]
    taken = after(waiting, with_endpoints(seen([ar(old)]), said()))
    assert shares(taken) == [("stable", OUTSIDE, 100), ("fallback", OUTSIDE, 0)]
    gone = after(taken, with_endpoints(seen([ar(old)]), said()))
    assert ar(old) not in {revision.hash for revision in gone.status.revisions}


def test_the_server_serves_until_our_own_ar_does() -> None:
    model = after(MODEL, READY)
    own = {"model": {"source": "file:///models/storyteller-ar"}}
    waiting = after(model, READY, fallback=own)
    assert shares(waiting)[0] == ("stable", OUTSIDE, 100)
    taken = after(waiting, with_endpoints(seen([ar(a_model())]), said()))
    assert shares(taken)[0] == ("stable", ar(a_model()), 100)


def test_another_secret_is_another_table_but_the_same_revision() -> None:
    model = after(MODEL, READY)
    ref = {"name": "vllm", "key": "token"}
    changed = after(model, READY, fallback={"endpoint": {**ENDPOINT, "secretRef": ref}})
    assert [arm.revision for arm in changed.status.routes.arms] == [OUTSIDE, OUTSIDE]
    assert changed.status.routes.generation == model.status.routes.generation + 1
    assert all(arm.endpoint and arm.endpoint.to_wire()["secretRef"] == ref for arm in changed.status.routes.arms)


def test_an_autoscaler_is_not_sent_after_a_server_without_pods() -> None:
    model = after(MODEL, READY)
    assert model.status.selector is not None
    assert diffusion(MODEL) in model.status.selector


def test_it_is_as_ready_as_the_gateway_finds_it_that_has_most_trouble() -> None:
    reports = [said(), said(EndpointState.UNREACHABLE, message="no route", scores=None)]
    found = endpoint_statuses([OUTSIDE], before=(), reports=reports)
    assert found[OUTSIDE].state is EndpointState.UNREACHABLE
    assert found[OUTSIDE].scores == ["chats", "completions"]


def test_a_fallback_must_be_one_of_the_two() -> None:
    wire = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"model": {"source": "file:///m"}, "fallback": {}}}
    with pytest.raises(ValueError, match="give exactly one of model"):
        parse(wire)
