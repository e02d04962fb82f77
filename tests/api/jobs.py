"""The Job controller's and kubelet's part: pods of Jobs that inspect checkpoints, and how they ended."""

from typing import Any

from diffusion_operator.api import labels
from diffusion_worker.inspect.facts import ModelFacts
from diffusion_worker.inspect.folder import inspect_folder
from diffusion_worker.inspect.message import facts_message
from kubernetes import client

from tests.api.conftest import REPOSITORY
from tests.api.seen import MODEL, Seen
from tests.api.server import until

CHECKPOINTS = REPOSITORY / "examples" / "checkpoints"


def facts(name: str) -> ModelFacts:
    """What the worker finds in a checkpoint of the examples."""
    return inspect_folder(CHECKPOINTS / name)


class Jobs:
    """All Jobs of one resource."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._batch = client.BatchV1Api(seen.server.api)

    def by_source(self) -> dict[str, Any]:
        """Those that exist, by the source that they read."""
        found = self._batch.list_namespaced_job(self._seen.namespace, label_selector=f"{labels.MODEL}={MODEL}").items
        return {job.spec.template.spec.containers[0].command[2]: job for job in found}

    def end(self, source: str, *, message: str, exit_code: int = 0) -> None:
        """A Job's pod ran and left `message` behind."""
        job = until(lambda: self.by_source().get(source), what=f"a Job that reads {source}")
        core, namespace = self._seen.server.core, self._seen.namespace
        name = f"{job.metadata.name}-x"
        container = job.spec.template.spec.containers[0]
        try:
            core.create_namespaced_service_account(namespace, {"metadata": {"name": "default"}})
        except client.exceptions.ApiException as error:
            if error.status != 409:
                raise
        core.create_namespaced_pod(
            namespace,
            {
                "metadata": {"name": name, "labels": job.spec.template.metadata.labels},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": container.name, "image": container.image}],
                },
            },
        )
        terminated = {"exitCode": exit_code, "message": message, "reason": "Completed" if exit_code == 0 else "Error"}
        state = {"name": container.name, "image": container.image, "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": "Failed" if exit_code else "Succeeded"}
        status |= {"containerStatuses": [state | {"state": {"terminated": terminated}}]}
        core.patch_namespaced_pod_status(name, namespace, {"status": status})

    def find(self, source: str, checkpoint: str) -> None:
        """A Job found what is in a checkpoint of the examples."""
        self.end(source, message=facts_message(facts(checkpoint)))
