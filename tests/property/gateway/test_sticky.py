"""A person keeps to an arm while weights climb; only those who come to the canary move."""

import random

from diffusion_gateway.routes import Model, plan
from diffusion_gateway.sticky import place
from diffusion_operator.api.status import ArmRole, RouteArm
from hypothesis import given
from hypothesis import strategies as st

USERS = st.text(max_size=40)
PERCENTS = st.integers(0, 100)


def model(canary: int, *, canary_first: bool = False, name: str = "story", sticky: bool = True) -> Model:
    arms = (
        RouteArm(role="stable", revision="aaaa0001", kind="diffusion", service="story-a", percent=100 - canary),
        RouteArm(role="canary", revision="bbbb0002", kind="diffusion", service="story-b", percent=canary),
    )
    return Model(
        namespace="default",
        name=name,
        generation=1,
        arms=arms[::-1] if canary_first else arms,
        is_sticky=sticky,
    )


def role(of: Model, user: str | None, *, mark: float = 0.999) -> ArmRole:
    return plan(of, max_tokens=None, forced=None, random=lambda: mark, user=user).arms[0].role


@given(user=USERS, low=PERCENTS, high=PERCENTS)
def test_a_step_moves_only_those_who_come_to_the_canary(user: str, low: int, high: int) -> None:
    low, high = sorted((low, high))
    before, after = role(model(low), user), role(model(high), user)
    assert before == after or (before, after) == (ArmRole.STABLE, ArmRole.CANARY)


@given(user=USERS, percent=PERCENTS, marks=st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)), first=st.booleans())
def test_neither_chance_nor_the_order_of_the_table_moves_a_user(
    user: str, percent: int, marks: tuple[float, float], first: bool
) -> None:
    one = role(model(percent), user, mark=marks[0])
    assert role(model(percent, canary_first=first), user, mark=marks[1]) == one


@given(user=USERS, key=st.text(max_size=20))
def test_a_place_lies_between_0_and_1_and_stays_there(user: str, key: str) -> None:
    assert 0 <= place(key, user) < 1
    assert place(key, user) == place(key, user)


@given(mark=st.floats(0, 0.999))
def test_who_gives_no_user_is_drawn_by_chance(mark: float) -> None:
    assert role(model(5), None, mark=mark) == (ArmRole.CANARY if mark * 100 < 5 else ArmRole.STABLE)
    assert role(model(5, sticky=False), "anna", mark=mark) == role(model(5), None, mark=mark)


def test_users_spread_as_the_weights_say_and_differently_for_each_model() -> None:
    users = [f"user-{number}" for number in range(20_000)]
    on_canary = {user for user in users if role(model(5), user) == ArmRole.CANARY}
    elsewhere = {user for user in users if role(model(5, name="other"), user) == ArmRole.CANARY}
    deviation = 3.29 * (len(users) * 0.05 * 0.95) ** 0.5
    assert abs(len(on_canary) - 1000) <= deviation
    # Of those drawn for one model a twentieth is drawn for the other too.
    assert abs(len(on_canary & elsewhere) - 50) <= 3.29 * 50**0.5


def test_from_5_to_10_percent_moves_only_users_to_the_canary() -> None:
    draw = random.Random(1)
    users = [f"{draw.getrandbits(64):x}" for _ in range(5_000)]
    at_5 = {user for user in users if role(model(5), user) == ArmRole.CANARY}
    at_10 = {user for user in users if role(model(10), user) == ArmRole.CANARY}
    assert at_5 < at_10
