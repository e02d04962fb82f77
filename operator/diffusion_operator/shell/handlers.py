"""kopf's part: it watches, we are woken.

Handlers take no `patch` and return nothing. kopf would write what they patch or return into the resource, by its own
rules; all writes are the loops'. With event handlers only, kopf leaves neither finalizer nor annotation behind.
"""

from typing import Any

import kopf

from diffusion_operator.adapters.own_writes import Version, version_of
from diffusion_operator.api import labels

from .crashes import CrashLog
from .loops import Loops

_CHILDREN = (
    ("", "v1", "configmaps"),
    ("", "v1", "services"),
    ("apps", "v1", "deployments"),
    ("batch", "v1", "jobs"),
)
# A Deployment does not change when its pods begin to wait for something else, such as an image that is not there.
_PODS = ("", "v1", "pods")


def register(registry: kopf.OperatorRegistry, loops: Loops, crashes: CrashLog) -> None:
    """Wake the loops by what is watched. A pod that crashed is remembered: a minute later it may look healthy."""

    @kopf.on.event(labels.GROUP, labels.VERSION, labels.PLURAL, registry=registry)
    async def model_changed(namespace: str | None, name: str | None, meta: kopf.Meta, **kwargs: Any) -> None:
        # Also when it was deleted: the loop finds it gone and ends.
        if namespace and name:
            loops.wake_or_start(namespace, name, version=_written(meta, kwargs["type"]))

    async def child_changed(namespace: str | None, meta: kopf.Meta, **kwargs: Any) -> None:
        model = meta.labels.get(labels.MODEL)
        if namespace and model:
            loops.wake(namespace, model, version=_written(meta, kwargs["type"]))

    @kopf.on.event(*_PODS, id="pods_changed", registry=registry)
    async def pod_changed(namespace: str | None, body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002
        model = body.metadata.labels.get(labels.MODEL)
        if not namespace or not model:
            return
        if type == "DELETED":
            crashes.pod_gone(namespace, body)
        else:
            crashes.note(namespace, body)
        loops.wake(namespace, model)

    for group, version, plural in _CHILDREN:
        kopf.on.event(group, version, plural, id=f"{plural}_changed", registry=registry)(child_changed)


def _written(meta: kopf.Meta, type_: str | None) -> Version | None:
    """The version that a change made. None for the end of an object, and for one that a new watch begins with: others may be gone."""
    return version_of(meta) if type_ in {"ADDED", "MODIFIED"} else None


def login(registry: kopf.OperatorRegistry) -> None:
    """Connect as the pod's service account, or by the kubeconfig."""

    @kopf.on.login(registry=registry)
    def connect(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def settings() -> kopf.OperatorSettings:
    """kopf's settings for this operator."""
    made = kopf.OperatorSettings()
    # Handlers only wake loops: nothing of theirs is worth an event on the resource.
    made.posting.enabled = False
    # The kinds are known and were waited for. Watching for new ones would need more rights than we want.
    made.scanning.disabled = True
    made.networking.request_timeout = 30
    # Its own name, so that kopf leaves finalizers of other kopf operators alone.
    made.persistence.finalizer = f"{labels.GROUP}/unused"
    ours = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE},{labels.MODEL}"

    for group, version, plural in (*_CHILDREN, _PODS):
        made.watching.label_selectors[group, version, plural] = ours
    return made
