"""Steering a rollout, and its story, against a real API server."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from diffusion_operator.api import labels

from tests.api.operator_process import OperatorProcess
from tests.api.seen import MODEL, PROMOTED, Seen
from tests.api.server import Server, until

CLIMBING = (("stable", "ar", 80), ("canary", "diffusion", 20), ("fallback", "ar", 0))


@pytest.fixture(scope="module")
def operator(server: Server) -> Iterator[OperatorProcess]:
    with OperatorProcess(server) as running:
        yield running


@pytest.fixture
def seen(server: Server, namespace: str) -> Iterator[Seen]:
    made = Seen(server, namespace)
    made.create(rollout={"initialPercent": 20})
    made.set_ready("ar", 1)
    made.set_ready("diffusion", 1)
    made.until_arms(*CLIMBING)
    yield made
    made.forget()


def ask(seen: Seen, text: str) -> None:
    command = f"{labels.ROLLOUT_COMMAND}={text}"
    seen.server.kubectl("-n", seen.namespace, "annotate", "dm", MODEL, "--overwrite", command)


def events(seen: Seen) -> list[tuple[str, str]]:
    found = seen.server.core.list_namespaced_event(seen.namespace).items
    return [(event.reason, event.message) for event in found]


def test_a_person_promotes_by_annotation_and_the_event_says_how(operator: OperatorProcess, seen: Seen) -> None:
    ask(seen, "promote-all:1")
    seen.until_arms(*PROMOTED)
    assert seen.status["rollout"]["handledCommand"] == "promote-all:1"
    until(lambda: "Promoted" in dict(events(seen)), what="the event")
    assert "kubectl" in dict(events(seen))["Promoted"]


def test_a_word_that_is_no_command_changes_nothing_and_is_refused(operator: OperatorProcess, seen: Seen) -> None:
    ask(seen, "rollback:1")
    until(lambda: "CommandRefused" in dict(events(seen)), what="the refusal")
    assert seen.arms() == list(CLIMBING)


def test_without_a_metrics_store_the_weight_stays_and_the_condition_says_what_to_do(
    operator: OperatorProcess, seen: Seen
) -> None:
    until(lambda: seen.condition("MetricsAvailable").get("status") == "False", what="the first look")
    assert "--prometheus-url" in seen.condition("MetricsAvailable")["message"]
    assert seen.arms() == list(CLIMBING)
    assert seen.status["rollout"]["phase"] == "Held"
    labelled = f'{{model="{MODEL}",model_namespace="{seen.namespace}"}}'
    unreadable = f"diffusion_operator_metrics_unreadable{labelled} 1.0"
    # Gauges follow at the end of the pass that wrote the status.
    until(lambda: unreadable in operator.get("/metrics"), what="the gauge")
    assert f"diffusion_operator_rollout_percent{labelled} 20.0" in operator.get("/metrics")


def explain(seen: Seen, name: str) -> subprocess.CompletedProcess[str]:
    kubeconfig = f"--kubeconfig={seen.server.plane.kubeconfig}"
    command = [sys.executable, "-m", "diffusion_operator", "explain", name, f"--namespace={seen.namespace}", kubeconfig]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_explain_tells_the_story(operator: OperatorProcess, seen: Seen) -> None:
    until(lambda: seen.status["rollout"]["phase"] == "Held", what="Held")
    told = explain(seen, MODEL).stdout
    for part in (
        f"{seen.namespace}/{MODEL}: Progressing, rollout Held, step 1/17",
        " 20%  canary    diffusion",
        "MetricsAvailable is False, MetricsUnreadable",
        "RolloutStarted",
        "promote-all: make the revision the stable one now",
        f"kubectl -n {seen.namespace} annotate dm {MODEL}",
    ):
        assert part in told
    nobody = explain(seen, "nobody")
    assert nobody.returncode == 2
    assert "there is no DiffusionModel nobody" in nobody.stderr


def test_the_lease_says_that_the_operator_is_alive(operator: OperatorProcess, server: Server) -> None:
    lease = until(
        lambda: server.kubectl("-n", "default", "get", "lease", "diffusion-operator", "-o", "name", check=False),
        what="the Lease",
    )
    assert "diffusion-operator" in lease
