"""Upgrade and uninstall of the release on a cluster that serves."""

from cluster import deploy
from examples import demo

SYSTEM = deploy.NAMESPACE


def test_an_upgrade_changes_the_operator_and_loses_no_model(cluster, eventually):
    uid = cluster.model()["metadata"]["uid"]
    worker = cluster.pods("app.kubernetes.io/name=diffusion-worker")[0]["metadata"]["uid"]

    cluster.target.helm(
        "upgrade",
        deploy.RELEASE,
        str(deploy.CHART),
        "-n",
        SYSTEM,
        "--reuse-values",
        "--set",
        "operator.logLevel=debug",
        "--wait",
    )

    eventually(cluster.everything_is_ready, "everything is Ready after the upgrade")
    assert cluster.model()["metadata"]["uid"] == uid
    assert worker in [pod["metadata"]["uid"] for pod in cluster.pods("app.kubernetes.io/name=diffusion-worker")]


def test_uninstall_keeps_the_models_and_a_new_install_takes_them_up_again(cluster, eventually):
    cluster.target.helm("uninstall", deploy.RELEASE, "-n", SYSTEM, "--wait")

    assert "storyteller" in cluster.kubectl("get", "dm", "-o", "name")
    assert not cluster.pods("app.kubernetes.io/part-of=diffusion-operator", namespace=SYSTEM)
    workers = cluster.ready_pods("app.kubernetes.io/name=diffusion-worker")
    assert workers, "pods that serve are not touched"

    demo.prepare()
    eventually(cluster.everything_is_ready, "the new release takes the model up again")
    assert set(workers) <= set(cluster.ready_pods("app.kubernetes.io/name=diffusion-worker"))
