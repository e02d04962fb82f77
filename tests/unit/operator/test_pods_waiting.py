"""What pods wait for, in a sentence."""

from typing import Any

import pytest
from diffusion_operator.adapters.pods import is_stuck, waiting_for


def pod(**status: Any) -> dict[str, Any]:
    return {"status": status}


def container(state: dict[str, Any], last: dict[str, Any] | None = None, *, ready: bool = False) -> dict[str, Any]:
    return {"state": state, "lastState": last or {}, "ready": ready}


ENDED = {"terminated": {"exitCode": 2, "reason": "Error", "message": "loading\nno folder /models/nowhere\n"}}
PODS = {
    "an image that cannot be pulled": (
        pod(containerStatuses=[container({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})]),
        "ImagePullBackOff (not found)",
    ),
    "an image between two pulls": (
        pod(
            containerStatuses=[
                container(
                    {
                        "waiting": {
                            "reason": "ImagePullBackOff",
                            "message": 'Back-off pulling image "w:1": ErrImagePull: w:1: not found',
                        }
                    }
                )
            ]
        ),
        "ErrImagePull (w:1: not found)",
    ),
    "an image that is being pulled again": (
        pod(containerStatuses=[container({"waiting": {"reason": "ErrImagePull", "message": "w:1: not found"}})]),
        "ErrImagePull (w:1: not found)",
    ),
    "a pod that is going": (
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}} | pod(containerStatuses=[container(ENDED)]),
        "",
    ),
    "no node that fits": (
        pod(
            conditions=[
                {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient nvidia.com/gpu"}
            ]
        ),
        "no node fits (0/1 nodes: Insufficient nvidia.com/gpu)",
    ),
    "a worker that ended": (
        pod(containerStatuses=[container(ENDED)]),
        "the worker ended with exit code 2 (no folder /models/nowhere)",
    ),
    "a worker that ends again and again": (
        pod(
            containerStatuses=[container({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}, ENDED)]
        ),
        "the worker ended with exit code 2 (no folder /models/nowhere)",
    ),
    "a worker that was killed for memory": (
        pod(containerStatuses=[container({"running": {}}, {"terminated": {"exitCode": 137, "reason": "OOMKilled"}})]),
        "the worker ended with exit code 137 (OOMKilled)",
    ),
    "a pod that starts": (pod(containerStatuses=[container({"waiting": {"reason": "ContainerCreating"}})]), ""),
    "a pod that loads": (pod(containerStatuses=[container({"running": {}})]), ""),
    "a pod that was restarted once and is well": (
        pod(containerStatuses=[container({"running": {}}, ENDED, ready=True)]),
        "",
    ),
    "a pod of which nothing is known": ({}, ""),
}


@pytest.mark.parametrize(("seen", "sentence"), PODS.values(), ids=PODS.keys())
def test_the_cause_is_told(seen: dict[str, Any], sentence: str) -> None:
    assert waiting_for([seen], deployment={}) == sentence


def test_pods_that_are_refused_are_told_by_their_deployment() -> None:
    status = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]}
    assert waiting_for([], deployment=status) == "pods are refused (exceeded quota)"


def test_the_sentence_does_not_depend_on_the_order_of_pods() -> None:
    two = [PODS["a worker that ended"][0], PODS["no node that fits"][0]]
    assert waiting_for(two, deployment={}) == waiting_for(two[::-1], deployment={})


@pytest.mark.parametrize(("status", "stuck"), [("False", True), ("True", False)])
def test_a_deployment_past_its_deadline_is_stuck(status: str, stuck: bool) -> None:
    assert is_stuck({"conditions": [{"type": "Progressing", "status": status}]}) is stuck
