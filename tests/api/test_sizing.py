"""Sizing against a real API server: the test plays the Job controller, kubelet and nodes."""

import time
from collections.abc import Iterator

import pytest
from diffusion_operator.api import labels
from kubernetes import client

from tests.api.conftest import REPOSITORY
from tests.api.jobs import Jobs
from tests.api.operator_process import OperatorProcess
from tests.api.seen import AR_ALONE, MODEL, Seen
from tests.api.server import Server, message_of, until

DIFFUSION, AR = "file:///models/storyteller", "file:///models/storyteller-ar"


@pytest.fixture(scope="module")
def operator(server: Server) -> Iterator[OperatorProcess]:
    with OperatorProcess(server, sizing="on") as running:
        yield running


@pytest.fixture
def seen(server: Server, namespace: str) -> Iterator[Seen]:
    made = Seen(server, namespace)
    yield made
    made.forget()


@pytest.fixture
def jobs(seen: Seen) -> Jobs:
    return Jobs(seen)


def until_sized(seen: Seen, reason: str) -> str:
    """The message of Sized once it has this reason."""
    until(
        lambda: seen.condition("Sized").get("reason") == reason, what=f"Sized={reason}, not {seen.condition('Sized')}"
    )
    return str(seen.condition("Sized")["message"])


def test_pods_come_after_the_jobs_and_the_jobs_go(operator: OperatorProcess, seen: Seen, jobs: Jobs) -> None:
    seen.create(limits={"maxBatchSize": "auto", "maxSequenceLength": 256})
    until(lambda: jobs.by_source().keys() == {DIFFUSION, AR}, what="a Job for each checkpoint")
    assert seen.names()["Deployment"] == set()
    assert seen.condition("Sized")["reason"] == "Inspecting"

    jobs.find(AR, "storyteller-ar")
    until(lambda: len(seen.names()["Deployment"]) == 1, what="the AR revision's Deployment")
    jobs.find(DIFFUSION, "storyteller")
    message = until_sized(seen, "Planned")
    assert message.count(" × 256 tokens in float32 take ") == 2
    until(lambda: jobs.by_source() == {}, what="no Job is left")
    until(lambda: len(seen.names()["Deployment"]) == 2, what="both Deployments")
    sizing = seen.status["sizing"]
    assert {arm["kind"] for arm in sizing["arms"]} == {"diffusion", "ar"}
    assert sizing["arms"][0]["memory"]["budgetBytes"] == int(0.9 * 2 * 1024**3)

    seen.set_ready("ar", 1)
    seen.until_arms(*AR_ALONE)
    first = seen.names()["Deployment"]
    seen.change(sampler={"maxDenoisingSteps": 7})
    until(lambda: seen.names()["Deployment"] - first, what="another revision of the same checkpoint")
    assert jobs.by_source() == {}


def test_a_model_that_is_too_large_gets_no_pod(operator: OperatorProcess, seen: Seen, jobs: Jobs) -> None:
    seen.create(resources={"memory": "700Mi"})
    jobs.find(DIFFUSION, "storyteller")
    jobs.find(AR, "storyteller-ar")
    message = until_sized(seen, "DoesNotFit")
    assert "more than the budget of 630.00 MiB" in message
    assert seen.names() == {"Deployment": set(), "Service": set(), "ConfigMap": set()}
    assert seen.status["phase"] == "Failed"
    until(lambda: jobs.by_source() == {}, what="no Job is left")
    until(lambda: "DoesNotFit" in seen.server.kubectl("-n", seen.namespace, "describe", "dm", MODEL), what="the event")
    writes, versions = operator.writes(), seen.versions()
    time.sleep(2)
    assert (operator.writes(), seen.versions()) == (writes, versions)

    seen.change(resources={"memory": "2Gi"})
    until_sized(seen, "Planned")
    until(lambda: len(seen.names()["Deployment"]) == 2, what="pods once there is memory")
    assert jobs.by_source() == {}


def test_why_a_checkpoint_cannot_be_read_is_told_and_asked_again(
    operator: OperatorProcess, seen: Seen, jobs: Jobs
) -> None:
    hub = "hf://owner/model"
    seen.create(model={"source": hub, "tokenSecretRef": {"name": "hub", "key": "token"}})
    jobs.end(hub, message=f"{hub} is gated: accept its terms on the hub", exit_code=2)
    first = f"diffusion: {hub} is gated: accept its terms on the hub; the next Job is due at "
    assert first in until_sized(seen, "FactsUnavailable")
    until(lambda: hub not in jobs.by_source(), what="the Job that failed is gone")
    jobs.find(AR, "storyteller-ar")
    until(lambda: len(seen.names()["Deployment"]) == 1, what="AR serves all the same")
    until(lambda: hub in jobs.by_source(), what="another Job, ten seconds later")
    jobs.find(hub, "storyteller")
    until_sized(seen, "Planned")
    described = seen.server.kubectl("-n", seen.namespace, "describe", "dm", MODEL)
    assert "FactsUnavailable" in described


def test_the_budget_is_the_smallest_gpu_of_the_nodes(
    operator: OperatorProcess, server: Server, seen: Seen, jobs: Jobs
) -> None:
    for name, size in (("small", "24576"), ("large", "81920"), ("other", "8192")):
        pool = "other" if name == "other" else "models"
        marks = {"pool": pool, labels.GPU_MEMORY: size}
        server.core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name=name, labels=marks)))
    seen.create(resources={"gpus": 1, "nodeSelector": {"pool": "models"}})
    jobs.find(DIFFUSION, "storyteller")
    jobs.find(AR, "storyteller-ar")
    until_sized(seen, "Planned")
    assert seen.status["sizing"]["gpuMemoryBytes"] == 24 * 1024**3
    assert seen.status["sizing"]["nodes"] == "pool=models"


def test_a_job_that_someone_deleted_comes_back(operator: OperatorProcess, seen: Seen, jobs: Jobs) -> None:
    seen.create()
    job = until(lambda: jobs.by_source().get(DIFFUSION), what="a Job")
    client.BatchV1Api(seen.server.api).delete_namespaced_job(
        job.metadata.name, seen.namespace, propagation_policy="Background"
    )
    until(
        lambda: DIFFUSION in jobs.by_source() and jobs.by_source()[DIFFUSION].metadata.uid != job.metadata.uid,
        what="the Job again",
    )


def test_autoscalers_scale_the_resource_and_the_deployments_follow(
    operator: OperatorProcess, seen: Seen, jobs: Jobs
) -> None:
    seen.create(replicas=1)
    jobs.find(DIFFUSION, "storyteller")
    jobs.find(AR, "storyteller-ar")
    seen.set_ready("ar", 1)
    seen.until_arms(*AR_ALONE)
    until(lambda: seen.status.get("replicas") == 1, what="status.replicas")
    custom = seen.server.custom
    scale = custom.get_namespaced_custom_object_scale(
        labels.GROUP, labels.VERSION, seen.namespace, labels.PLURAL, MODEL
    )
    assert scale["spec"]["replicas"] == 1
    assert scale["status"] == {
        "replicas": 1,
        "selector": f"{labels.MODEL}={MODEL},{labels.REVISION}={seen.revision('ar')}",
    }

    seen.server.kubectl("-n", seen.namespace, "scale", "dm", MODEL, "--replicas=3")
    until(
        lambda: (
            {
                deployment.spec.replicas
                for deployment in seen.server.apps.list_namespaced_deployment(seen.namespace).items
            }
            == {3}
        ),
        what="three replicas of each revision",
    )
    time.sleep(1)
    assert seen.server.read(seen.namespace, MODEL)["spec"]["replicas"] == 3


def test_the_example_of_an_autoscaler_is_accepted(server: Server, namespace: str) -> None:
    server.kubectl("-n", namespace, "apply", "-f", str(REPOSITORY / "examples" / "autoscaling.yaml"))
    (found,) = client.AutoscalingV2Api(server.api).list_namespaced_horizontal_pod_autoscaler(namespace).items
    target = found.spec.scale_target_ref
    assert (target.api_version, target.kind) == (labels.API_VERSION, labels.KIND)
    assert [metric.pods.metric.name for metric in found.spec.metrics] == ["dlm_rows_in_flight", "dlm_queue_seconds_p95"]


def test_without_replicas_in_spec_there_is_nothing_to_scale(seen: Seen) -> None:
    """As docs/autoscaling.md says."""
    seen.create()
    with pytest.raises(client.exceptions.ApiException) as error:
        seen.server.custom.get_namespaced_custom_object_scale(
            labels.GROUP, labels.VERSION, seen.namespace, labels.PLURAL, MODEL
        )
    assert '".spec.replicas" does not exist' in message_of(error.value)
