"""Old revisions stay until no gateway sends requests to them."""

from diffusion_operator.core.observation import ObservedGateway

from tests.unit.operator.builders import a_model, after, ar, decide, diffusion, reason, seen

OLD = a_model(rollout={"initialPercent": 100})
NEW = a_model(rollout={"initialPercent": 100}, sampler={"maxDenoisingSteps": 9})
READY = [ar(OLD), diffusion(OLD), diffusion(NEW)]
SWITCHED = after(after(OLD, seen(READY[:2])), seen(READY), **NEW.spec.to_wire())
GENERATION = SWITCHED.status.routes.generation


def gateway(generation: int | None, *revisions: str, answered: bool = True) -> ObservedGateway:
    return ObservedGateway(
        name="10.0.0.1:8081", answered=answered, generation=generation, revisions=frozenset(revisions)
    )


def hashes(model: object) -> set[str]:
    return {revision.hash for revision in model.status.revisions}  # type: ignore[attr-defined]


def test_the_old_revision_is_there_in_the_pass_that_switches() -> None:
    assert diffusion(OLD) in hashes(SWITCHED)


def test_it_stays_while_a_gateway_has_older_routes() -> None:
    decision = decide(SWITCHED, seen(READY, gateways=[gateway(GENERATION - 1, diffusion(OLD))]))
    assert diffusion(OLD) in {revision.hash for revision in decision.status.revisions}
    assert decision.remove == frozenset()
    assert decision.look_again_seconds == 1.0


def test_it_stays_while_a_ready_gateway_does_not_answer() -> None:
    waiting = after(SWITCHED, seen(READY, gateways=[gateway(None, answered=False)]))
    assert diffusion(OLD) in hashes(waiting)
    assert reason(waiting, "Progressing") == ("True", "RetiringRevision")
    progressing = next(c for c in waiting.status.conditions if c.type == "Progressing")
    assert "10.0.0.1:8081" in progressing.message


def test_it_goes_when_every_gateway_has_the_new_routes() -> None:
    decision = decide(
        SWITCHED, seen(READY, gateways=[gateway(GENERATION, ar(OLD), diffusion(NEW)), gateway(GENERATION, ar(OLD))])
    )
    assert decision.remove == {diffusion(OLD)}
    assert diffusion(OLD) not in {revision.hash for revision in decision.status.revisions}


def test_it_goes_when_there_is_no_gateway_at_all() -> None:
    assert decide(SWITCHED, seen(READY)).remove == {diffusion(OLD)}


def test_it_goes_when_a_gateway_does_not_serve_this_resource() -> None:
    assert decide(SWITCHED, seen(READY, gateways=[gateway(None)])).remove == {diffusion(OLD)}


def test_objects_of_a_revision_that_the_status_forgot_are_removed_by_the_same_rule() -> None:
    settled = after(SWITCHED, seen(READY))
    assert decide(settled, seen([ar(NEW), diffusion(NEW)], children=["0badc0de"])).remove == {"0badc0de"}
    used = seen([ar(NEW), diffusion(NEW)], children=["0badc0de"], gateways=[gateway(GENERATION, "0badc0de")])
    assert decide(settled, used).remove == frozenset()


def test_a_revision_that_never_served_goes_at_once_when_spec_changes() -> None:
    model = after(OLD, seen([ar(OLD)], children=[diffusion(OLD)]))
    changed = decide(
        after(model, seen([ar(OLD)], children=[diffusion(OLD)]), **NEW.spec.to_wire()),
        seen([ar(OLD)], children=[diffusion(OLD), diffusion(NEW)]),
    )
    assert changed.remove == {diffusion(OLD)}


def test_edits_do_not_pile_up_pods_while_a_gateway_cannot_be_asked() -> None:
    silent = [gateway(None, answered=False)]
    model = after(OLD, seen([ar(OLD)], children=[diffusion(OLD)], gateways=silent))
    made = {ar(OLD), diffusion(OLD)}
    for steps in range(1, 40):
        new = a_model(rollout={"initialPercent": 100}, sampler={"maxDenoisingSteps": steps})
        model = after(model, **new.spec.to_wire())
        decision = decide(model, seen([ar(OLD)], children=made | {diffusion(new)}, gateways=silent))
        model = model.model_copy(update={"status": decision.status})
        made = (made | {diffusion(new)}) - decision.remove
        assert made == hashes(model) == {ar(OLD), diffusion(new)}
