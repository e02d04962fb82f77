import random
from dataclasses import replace

import pytest
from diffusion_gateway.routes import Model, Plan, ServiceKey, Table, plan, weighted_arm
from diffusion_operator.api.status import ArmRole, RouteArm
from hypothesis import given
from hypothesis import strategies as st


def arm(role: str, percent: int = 0, *, kind: str | None = None, service: str | None = None) -> RouteArm:
    return RouteArm(
        role=role,
        revision=f"{role[:4]}0001",
        kind=kind or ("ar" if role == "fallback" else "diffusion"),
        service=service or f"story-{role}",
        percent=percent,
    )


def model(*arms: RouteArm, name: str = "story", namespace: str = "default", minimum: int = 32) -> Model:
    return Model(namespace=namespace, name=name, generation=1, arms=arms, min_output_tokens=minimum)


def roles(*arms: RouteArm, max_tokens: int | None = 100, forced: ArmRole | None = None, mark: float = 0.0) -> list[str]:
    chosen = plan(model(*arms), max_tokens=max_tokens, forced=forced, random=lambda: mark)
    return [item.role.value for item in chosen.arms]


STABLE, CANARY, FALLBACK = arm("stable", 90), arm("canary", 10), arm("fallback")


def test_the_weighted_arm_is_asked_first_and_ar_takes_over() -> None:
    assert roles(STABLE, CANARY, FALLBACK, mark=0.5) == ["stable", "fallback"]
    assert roles(STABLE, CANARY, FALLBACK, mark=0.05) == ["canary", "fallback"]


def test_an_arm_without_weight_is_never_drawn() -> None:
    assert roles(arm("stable", 0), arm("canary", 100), FALLBACK, mark=0.0) == ["canary", "fallback"]


def test_ar_as_stable_arm_has_nobody_behind_it() -> None:
    ar = arm("stable", 100, kind="ar", service="story-ar")
    assert roles(ar) == ["stable"]
    # The same pods under a second role are not asked twice.
    assert roles(ar, arm("fallback", service="story-ar")) == ["stable"]


def test_without_ar_the_diffusion_arm_stands_alone() -> None:
    assert roles(arm("stable", 100)) == ["stable"]


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [
        (31, ["fallback", "stable"]),
        (32, ["stable", "fallback"]),
        (None, ["stable", "fallback"]),
    ],
)
def test_short_outputs_go_to_ar_first(max_tokens: int | None, expected: list[str]) -> None:
    assert roles(STABLE, FALLBACK, max_tokens=max_tokens) == expected


def test_the_rule_is_named_only_when_it_overruled_the_weights() -> None:
    ar = arm("stable", 100, kind="ar")
    short = {"max_tokens": 1, "forced": None, "random": lambda: 0.0}
    assert plan(model(STABLE, FALLBACK), **short).rule == "short_output"
    assert plan(model(ar), **short).rule is None
    assert plan(model(STABLE), **short).rule is None


def test_what_only_ar_can_honour_goes_to_ar_alone() -> None:
    only_ar = {"max_tokens": 100, "random": lambda: 0.0, "autoregressive_only": True}
    chosen = plan(model(STABLE, CANARY, FALLBACK), forced=None, **only_ar)
    assert ([arm.role for arm in chosen.arms], chosen.rule) == ([ArmRole.FALLBACK], "autoregressive_only")
    ar = arm("stable", 100, kind="ar")
    assert plan(model(ar), forced=None, **only_ar) == Plan((ar,))
    assert plan(model(STABLE), forced=None, **only_ar) == Plan(())
    assert plan(model(STABLE, FALLBACK), forced=ArmRole.STABLE, **only_ar) == Plan(())
    assert plan(model(STABLE, FALLBACK), forced=ArmRole.FALLBACK, **only_ar) == Plan((FALLBACK,))


def test_a_minimum_of_zero_switches_the_rule_off() -> None:
    chosen = plan(model(STABLE, FALLBACK, minimum=0), max_tokens=1, forced=None, random=lambda: 0.0)
    assert chosen.arms[0].role == ArmRole.STABLE


def test_a_forced_arm_stands_alone_and_beats_rules() -> None:
    assert roles(STABLE, CANARY, FALLBACK, forced=ArmRole.CANARY, max_tokens=1) == ["canary"]
    assert roles(STABLE, FALLBACK, forced=ArmRole.CANARY) == []


def test_no_arms_is_an_empty_plan() -> None:
    assert roles() == []


@given(
    percents=st.lists(st.integers(0, 100), min_size=1, max_size=8).filter(any),
    mark=st.floats(0, 1, exclude_max=True),
)
def test_only_arms_with_weight_are_drawn_and_the_draw_follows_the_cumulated_percents(
    percents: list[int], mark: float
) -> None:
    arms = tuple(arm("stable", percent, service=f"s{index}") for index, percent in enumerate(percents))
    drawn = weighted_arm(arms, random=lambda: mark)
    assert drawn is not None
    assert drawn.percent > 0
    index = arms.index(drawn)
    total = sum(percents)
    assert sum(percents[:index]) - 1e-6 <= mark * total <= sum(percents[: index + 1]) + 1e-6


@pytest.mark.parametrize("percent", [1, 5, 50, 95])
def test_shares_land_within_the_binomial_interval(percent: int) -> None:
    draw = random.Random(percent).random
    arms = (arm("stable", 100 - percent), arm("canary", percent))
    requests, p = 20_000, percent / 100
    canary = sum(weighted_arm(arms, random=draw).role == ArmRole.CANARY for _ in range(requests))
    deviation = 3.29 * (requests * p * (1 - p)) ** 0.5
    assert abs(canary - requests * p) <= deviation


def test_a_name_belongs_to_the_oldest_and_is_found_with_its_namespace_always() -> None:
    older, newer = replace(model(namespace="b"), created=1), replace(model(namespace="a"), created=2)
    other = model(name="other", namespace="b")
    table = Table(models={item.key: item for item in (newer, older, other)})
    assert table.find("story") is older
    assert table.find("a/story") is newer
    assert table.find("other") is other
    assert table.find("c/story") is None
    assert table.find("") is None


def test_of_models_of_one_age_the_first_namespace_has_the_name() -> None:
    one, two = model(STABLE, namespace="a"), model(STABLE, namespace="b")
    table = Table(models={item.key: item for item in (two, one)})
    assert table.find("story") is one
    assert table.served() == [("story", one), ("b/story", two)]


def test_only_models_with_routes_are_served() -> None:
    ready, starting = model(STABLE, name="ready"), model(name="starting")
    table = Table(models={item.key: item for item in (ready, starting)})
    assert table.served() == [("ready", ready)]


def test_targets_are_the_ready_pods_of_the_arms_service_in_its_own_namespace() -> None:
    story = model(STABLE)
    pods = {
        ServiceKey("default", "story-stable"): frozenset({"10.0.0.2", "10.0.0.1", "fd00::1"}),
        ServiceKey("other", "story-stable"): frozenset({"10.9.9.9"}),
    }
    table = Table(models={story.key: story}, pods=pods)
    assert table.targets(story, STABLE) == ["10.0.0.1:8001", "10.0.0.2:8001", "[fd00::1]:8001"]
    assert table.targets(story, CANARY) == []
    assert table.all_targets() == {"10.0.0.1:8001", "10.0.0.2:8001", "[fd00::1]:8001"}
