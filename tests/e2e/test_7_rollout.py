"""A rollout on real counters: real clients, gateways, Prometheus, operator and workers; only the steps are seconds, not days.

All tests share one resource and go on from where the one before left it, since each new revision costs the start of a pod. Each
says what it needs (`is_promoted`), so that one that fails does not take the others down. How long something took is printed and
kept as a property of the test, and asserted nowhere but with an order of magnitude to spare.
"""

import contextlib
import itertools
import random
import signal
import sys
import time
from datetime import UTC, datetime

import pytest

from cluster import deploy, lifecycle, prometheus
from tests.e2e.rollout_tale import BAD, CRASHING, GOOD, LADDER, NAME, NEWER, SLOW, Tale, manifest
from tests.e2e.rollout_traffic import Client, Traffic, users_of

SYSTEM = deploy.NAMESPACE
OPERATOR = "app.kubernetes.io/component=operator"
AR_PODS = f"serving.diffusion-operator.dev/model={NAME},serving.diffusion-operator.dev/kind=ar"
KEY = f"default/{NAME}"
# Whoever comes to a canary at its first weight, and who comes last of all.
FIRST = [Client(NAME, user) for user in itertools.islice(users_of(KEY, low=0, high=LADDER[0] / 100), 3)]
LAST = Client(NAME, next(users_of(KEY, low=0.99, high=1)))
# AR answers these whatever the weights are, so that latencies are compared with those of live requests at 100 % too.
CODERS = [Client(NAME, "coder", workload="code")] * 2
EVERYBODY = [*FIRST, LAST, *CODERS]
CLIMB = [(LADDER[0], "Started"), *((percent, "GatesPass") for percent in (*LADDER[1:], 100))]


@pytest.fixture(scope="module")
def tale(cluster, eventually):
    """The resource, on an operator that reads a real Prometheus."""
    prometheus.install(lifecycle.running_instance())
    cluster.target.helm(
        *("upgrade", deploy.RELEASE, str(deploy.CHART), "-n", SYSTEM, "--reuse-values", "--wait"),
        *("--set", f"prometheus.url={prometheus.URL}"),
        # SLOW must be judged by its gate and not be left out by breakers, on a busy machine too.
        *("--set", "gateway.extraArgs={--breaker-slow-seconds=60}"),
    )
    cluster.kubectl("apply", "-f", "-", stdin=manifest(BAD))
    yield Tale(cluster, eventually)
    cluster.kubectl("delete", "dm", NAME)


@pytest.fixture(scope="module")
def traffic(cluster):
    with Traffic(cluster.url) as found:
        yield found


@pytest.fixture(autouse=True)
def _quiet_between_tests(traffic):
    yield
    traffic.be(())


@pytest.fixture
def record(record_property):
    """Keep a number for people to read."""

    def keep(name: str, value: float) -> None:
        sys.stdout.write(f"{name}: {value:.1f}\n")
        record_property(name, round(value, 1))

    return keep


def seconds_since(text: str) -> float:
    """Of a timestamp of the operator, which has whole seconds."""
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()


def serving(table):
    """Revisions with a share of the requests."""
    return {arm["revision"]: arm["percent"] for arm in table.get("arms", []) if arm["percent"]}


def wait_until_left(tale, eventually, revision):
    """Until no gateway sends anything to a revision; the seconds from when that was decided."""

    def is_left():
        seen = tale.seen_by_gateways()
        return seen and all(revision not in serving(table) for table in seen)

    eventually(is_left, f"no gateway has {revision} in its routes", within=600)
    state = tale.wait(lambda state: state.get("failure"), "the status says why")
    seconds = seconds_since(state["failure"]["at"])
    assert seconds < 100, "ten times what is promised"
    return seconds


def assert_never_above(tale, revision, percent):
    assert max(weight for weight, _ in tale.changes_of(revision)) <= percent


def scale_prometheus(cluster, replicas):
    cluster.kubectl("-n", "monitoring", "scale", "deployment", "prometheus", f"--replicas={replicas}")


def test_a_bad_checkpoint_loses_its_first_few_requests_by_a_quality_gate(tale, traffic, eventually, record):
    revision = tale.ask_for(BAD)
    tale.wait_for_canary(revision)
    traffic.be(EVERYBODY)

    record("seconds from decision to all gateways", wait_until_left(tale, eventually, revision))

    state = tale.rollout()
    assert state["phase"] == "RolledBack"
    assert state["failure"]["reason"] in {"perplexityRatio", "repetitionRate"}
    assert_never_above(tale, revision, 10)
    assert serving(tale.status()["routes"]) == {state["fallbackRevision"]: 100}
    told = traffic.told()
    assert {one.client for one in told if one.revision == revision} == set(FIRST), "only the first users ever saw it"
    assert {one.code for one in told} == {200}, "it cost no client an answer"


def test_a_good_revision_climbs_from_5_to_100_percent(tale, traffic, record):
    began = time.monotonic()
    revision = tale.ask_for(GOOD)
    tale.wait_for_canary(revision)
    asked_before = len(traffic.told())
    traffic.be(EVERYBODY)

    state = tale.wait(lambda state: state["phase"] in {"Promoted", "RolledBack"}, "it is at the top")

    record("seconds to climb", time.monotonic() - began)
    assert state["stableRevision"] == revision, state["message"]
    assert tale.changes_of(revision) == CLIMB
    tale.wait_until_in_force()
    told = traffic.told()[asked_before:]
    assert {one.code for one in told} == {200}, "it cost no client an answer"
    assert {one.revision for one in told if one.client == LAST} == {state["fallbackRevision"], revision}


def test_a_second_spec_during_a_canary_takes_the_first_away_before_it_starts(tale):
    stable = tale.is_promoted(GOOD)
    first = tale.ask_for(NEWER)
    tale.wait_for_canary(first)

    second = tale.ask_for(SLOW)
    tale.wait_for_canary(second)

    assert tale.changes_of(first)[-2:] == [(5, "Started"), (0, "Withdrawn")]
    assert tale.changes_of(second)[-1] == (5, "Started")
    history = [change["revision"] for change in tale.rollout()["history"]]
    assert history[-2:] == [first, second]
    assert serving(tale.status()["routes"]) == {stable: 95, second: 5}
    assert all(serving(table) == {stable: 95, second: 5} for table in tale.seen_by_gateways())


def test_a_slow_revision_is_rolled_back_by_the_latency_gate(tale, traffic, eventually, record):
    stable = tale.rollout().get("stableRevision") or tale.is_promoted(GOOD)
    revision = tale.ask_for(SLOW)
    tale.wait_for_canary(revision)
    traffic.be(EVERYBODY)

    record("seconds from decision to all gateways", wait_until_left(tale, eventually, revision))

    state = tale.rollout()
    assert state["failure"]["reason"] == "latencyRatio", state["failure"]["message"]
    assert_never_above(tale, revision, 10)
    assert serving(tale.status()["routes"]) == {stable: 100}, "back to the stable revision, not to AR"


def test_a_revision_that_crashes_twice_is_rolled_back_at_once(tale, eventually, record):
    stable = tale.is_promoted(GOOD)
    revision = tale.ask_for(CRASHING)
    tale.wait_for_canary(revision)

    tale.crash(revision)
    assert tale.rollout().get("canaryRevision") == revision, "one crash may be the node's fault"
    eventually(lambda: tale.is_ready(revision), "the worker serves again")
    tale.signal_stub(revision, signal.SIGKILL)
    killed_at = datetime.now(UTC)
    wait_until_left(tale, eventually, revision)

    state = tale.rollout()
    assert state["failure"]["reason"] == "crashes"
    decided_at = datetime.fromisoformat(state["failure"]["at"])
    record("seconds from the second crash to the decision", (decided_at - killed_at).total_seconds())
    assert_never_above(tale, revision, 10)
    assert serving(tale.status()["routes"]) == {stable: 100}


@pytest.mark.long
def test_an_operator_that_is_killed_again_and_again_comes_to_the_same_end(tale, traffic, cluster, eventually):
    tale.is_promoted(GOOD)
    revision = tale.ask_for(NEWER)
    tale.wait_for_canary(revision)
    traffic.be(EVERYBODY)
    moments = random.Random(6)

    for _ in range(4):
        asked, requests = len(traffic.told()), moments.randrange(20, 100)
        eventually(lambda: len(traffic.told()) > asked + requests, f"{requests} requests later", within=600)  # noqa: B023
        operator = eventually(lambda: cluster.ready_pods(OPERATOR, namespace=SYSTEM), "an operator is ready")[0]
        cluster.kubectl("-n", SYSTEM, "delete", "pod", operator, "--grace-period=0", "--force", "--wait=false")

    state = tale.wait(lambda state: state["phase"] in {"Promoted", "RolledBack"}, "it is at the top")
    assert state["stableRevision"] == revision, state["message"]
    assert tale.changes_of(revision)[-4:] == CLIMB


@pytest.mark.long
def test_without_prometheus_a_canary_stays_where_it_is_and_then_goes_on(tale, traffic, cluster, eventually):
    tale.is_promoted(NEWER)
    revision = tale.ask_for(GOOD)
    tale.wait_for_canary(revision)
    scale_prometheus(cluster, 0)
    try:
        eventually(lambda: not cluster.pods("app=prometheus", namespace="monitoring"), "Prometheus is gone")
        traffic.be(EVERYBODY)

        state = tale.wait(
            lambda state: any(gate["verdict"] == "Error" for gate in state["gates"]) and state["phase"] == "Held",
            "it says that there is no data",
        )
        assert "Prometheus" in state["message"]
        assert cluster.condition("MetricsAvailable", NAME)["status"] == "False"
        counted = state["canary"]["observedSeconds"]
        answered = len(traffic.told())
        eventually(lambda: len(traffic.told()) > answered + 100, "enough requests for a step were answered", within=600)
        state = tale.rollout()
        assert (state["canaryPercent"], state["canary"]["observedSeconds"]) == (5, counted), "no time counts"
    finally:
        scale_prometheus(cluster, 1)

    tale.wait(lambda state: state["canaryPercent"] > 5, "it goes on by itself")


@pytest.mark.long
def test_a_detour_over_another_spec_leaves_the_stable_revision_alone(tale):
    state = tale.rollout()
    if not (state.get("stableRevision") and state.get("canaryRevision")):
        tale.is_promoted(NEWER)
        tale.wait_for_canary(tale.ask_for(GOOD))
        state = tale.rollout()
    stable, canary = state["stableRevision"], state["canaryRevision"]
    pods = {pod["metadata"]["uid"] for pod in tale.pods(stable)}
    changes = tale.changes_of(stable)

    assert tale.ask_for(NEWER) == stable

    tale.wait(lambda state: state["phase"] == "Promoted" and not state.get("canaryRevision"), "it is as before")
    tale.wait_until_in_force()
    assert all(serving(table) == {stable: 100} for table in tale.seen_by_gateways())
    assert {pod["metadata"]["uid"] for pod in tale.pods(stable)} == pods
    assert tale.changes_of(stable) == changes, "it did not climb anew"
    assert tale.changes_of(canary)[-1] == (0, "Withdrawn")


@pytest.mark.long
def test_a_promoted_revision_that_degrades_is_switched_to_ar_by_itself(tale, traffic, eventually, record):
    revision = tale.is_promoted(NEWER)
    asked_before = len(traffic.told())
    traffic.be(EVERYBODY)
    eventually(lambda: any(one.revision == revision for one in traffic.told()[asked_before:]), "it answers")
    tale.signal_stub(revision, signal.SIGSTOP)  # it looks alive, and answers nobody
    try:
        # All of them find out at the same time, after requestTimeout, and then the gateways' breakers tell the others.
        traffic.be([*FIRST, LAST] * 6)
        record("seconds from decision to all gateways", wait_until_left(tale, eventually, revision))
        state = tale.rollout()
        assert state["failure"]["reason"] == "errorRate", state["failure"]["message"]
        assert serving(tale.status()["routes"]) == {state["fallbackRevision"]: 100}
        eventually(
            lambda: any(one.revision == state["fallbackRevision"] for one in traffic.told()[asked_before:]),
            "AR answers",
        )
        assert {one.code for one in traffic.told()[asked_before:]} == {200}, "it cost no client an answer"
    finally:
        # Its launcher ends one that hangs for two minutes: then there is none to go on, or another one.
        with contextlib.suppress(deploy.DeployError, AssertionError):
            tale.signal_stub(revision, signal.SIGCONT)


@pytest.mark.long
def test_a_due_rollback_waits_while_nobody_could_take_over(tale, traffic, cluster, eventually):
    stable = tale.is_promoted(NEWER)
    asked_before = len(traffic.told())
    node = cluster.target.get("nodes")["items"][0]["metadata"]["name"]
    cluster.kubectl("cordon", node)
    try:
        cluster.kubectl("delete", "pod", "-l", AR_PODS, "--grace-period=0", "--force", "--wait=false")
        eventually(lambda: not cluster.ready_pods(AR_PODS), "no AR pod is ready")
        tale.crash(stable)
        eventually(lambda: tale.is_ready(stable), "the worker serves again")
        tale.signal_stub(stable, signal.SIGKILL)

        tale.wait(lambda state: state["phase"] == "RollbackBlocked", "the rollback is due, and blocked")
        assert "FallbackUnavailable" in {reason for reason, _ in tale.events()}
        eventually(lambda: tale.is_ready(stable), "the worker serves again")
        traffic.be(FIRST)
        eventually(
            lambda: any(one.revision == stable and one.code == 200 for one in traffic.told()[asked_before:]),
            "the failed revision answers: a bad answer is better than none",
        )
        traffic.be(())
    finally:
        cluster.kubectl("uncordon", node)

    state = tale.wait(lambda state: state["phase"] == "RolledBack", "the rollback follows once AR is back")
    assert state["failure"]["reason"] == "crashes"
    tale.wait_until_in_force()
    assert all(serving(table) == {state["fallbackRevision"]: 100} for table in tale.seen_by_gateways())
