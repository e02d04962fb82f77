"""What a real gateway counts arrives at the gates: names, labels and zeros of both sides fit."""

from datetime import UTC, datetime, timedelta

from diffusion_gateway.metrics import Metrics, arm_labels
from diffusion_gateway.metrics.labels import pair_labels
from diffusion_gateway.reasons import Reason
from diffusion_gateway.routes import Model, Table
from diffusion_operator.adapters.metrics import ModelKey
from diffusion_operator.api.status import ArmKind, ArmRole, RouteArm
from diffusion_operator.core.rollout import Reading, Window
from diffusion_operator.core.verdict import Moments, Proportion
from prometheus_client import generate_latest

from tests.prometheus.test_readings import POLICY
from tests.unit.gateway.test_metrics import a_tally

CANARY = RouteArm(role=ArmRole.CANARY, revision="new", kind=ArmKind.DIFFUSION, service="teller-new", percent=5)
AR = RouteArm(role=ArmRole.STABLE, revision="ar", kind=ArmKind.AR, service="teller-ar", percent=95)
MODEL = Model(namespace="stories", name="real", generation=1, arms=(CANARY, AR))


async def read(metrics, since: datetime) -> Reading:
    windows = (Window(revision="new", since=since, guard_since=since, guard_index=0),)
    found = await metrics.readings(ModelKey("stories", "real"), windows, ar="ar", policy=POLICY, now=datetime.now(UTC))
    return found["new"]


async def test_what_a_gateway_counts_is_what_the_gates_are_judged_by(server, metrics):
    since = datetime.now(UTC)
    gateway = Metrics()
    gateway.show_table(Table(models={MODEL.key: MODEL}))
    server.pods["one"].also = lambda: generate_latest(gateway.registry).decode()
    server.catch_up()
    # Long after a step began, so that an absent series would be an error.
    before = await read(metrics, since - timedelta(hours=1))

    for _ in range(20):
        gateway.arms.count_asked(MODEL, CANARY)
    gateway.arms.count_failed(MODEL, CANARY, Reason.TIMEOUT)
    gateway.requests.first_token_seconds.labels(*arm_labels(MODEL, CANARY)).observe(0.45)
    gateway.requests.first_token_seconds.labels(*arm_labels(MODEL, CANARY)).observe(0.55)
    gateway.answers.count(MODEL, CANARY, a_tally(tokens=40, ended_at=2.0), asked_at=0.0)
    gateway.answers.count(MODEL, AR, a_tally(tokens=40, ended_at=8.0), asked_at=0.0)
    labels = pair_labels(MODEL, revision="new", ar_revision="ar")
    gateway.pairs.pairs.labels(*labels).inc()
    gateway.pairs.below.labels(*labels).inc(0.5)
    gateway.pairs.squared.labels(*labels).inc(0.25)
    server.catch_up()
    after = await read(metrics, since)

    assert before.speed.errors == Proportion(0, 0)
    assert before.quality.pairs == Moments(0, 0, 0)
    assert isinstance(before.speed.latency, tuple)
    assert after.speed.errors == Proportion(20, 1)
    above, _ = after.speed.first_token.above(0.5)
    assert above == Proportion(2, 1)
    assert after.speed.latency[1].diffusion == Moments(1, 2.0, 4.0)
    assert after.speed.latency[1].ar == Moments(1, 8.0, 64.0)
    assert after.quality.pairs == Moments(1, -0.5, 0.25)
