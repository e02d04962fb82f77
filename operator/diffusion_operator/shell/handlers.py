"""kopf's part: it watches, we are woken.

Handlers take no `patch` and return nothing. kopf would write what they patch or return into the resource, by its own
rules; all writes are the loops'. With event handlers only, kopf leaves neither finalizer nor annotation behind.
"""

from typing import Any

import kopf

from diffusion_operator.adapters.known_objects import KnownObjects
from diffusion_operator.adapters.own_writes import Version, version_of
from diffusion_operator.api import labels
from diffusion_operator.core.children import ChildKind

from .crashes import CrashLog
from .loops import Loops

_CHILDREN = {
    ChildKind.CONFIG_MAP: ("", "v1", "configmaps"),
    ChildKind.SERVICE: ("", "v1", "services"),
    ChildKind.DEPLOYMENT: ("apps", "v1", "deployments"),
    ChildKind.JOB: ("batch", "v1", "jobs"),
}
# A Deployment does not change when its pods begin to wait for something else, such as an image that is not there.
_PODS = ("", "v1", "pods")


def register(registry: kopf.OperatorRegistry, loops: Loops, crashes: CrashLog, known: KnownObjects) -> None:
    """Wake the loops by what is watched.

    Resources and children are kept, so that passes need not read them. A pod that crashed is remembered: a minute later it may look healthy.
    """

    @kopf.on.event(labels.GROUP, labels.VERSION, labels.PLURAL, registry=registry)
    async def model_changed(namespace: str | None, name: str | None, body: kopf.Body, **kwargs: Any) -> None:
        if kwargs["type"] is None:
            # The API server was away, and with it the watches of children. If the last of a kind went meanwhile, its own watch
            # has nothing to begin anew with.
            known.doubt()
        known.tell_model(body, is_gone=kwargs["type"] == "DELETED")
        # Also when it was deleted: the loop finds it gone and ends.
        if namespace and name:
            loops.wake_or_start(namespace, name, version=_written(body.metadata, kwargs["type"]))

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

    _register_children(registry, loops, known)


def _register_children(registry: kopf.OperatorRegistry, loops: Loops, known: KnownObjects) -> None:
    async def child_changed(namespace: str | None, body: kopf.Body, **kwargs: Any) -> None:
        type_, model = kwargs["type"], body.metadata.labels.get(labels.MODEL)
        if not namespace or not model:
            return
        if type_ is None:
            known.doubt()
        known.tell_child(kwargs["param"], body, is_gone=type_ == "DELETED")
        loops.wake(namespace, model, version=_written(body.metadata, type_))

    for kind, (group, version, plural) in _CHILDREN.items():
        kopf.on.event(group, version, plural, id=f"{plural}_changed", param=kind, registry=registry)(child_changed)


class _NothingCompared(kopf.DiffBaseStorage):
    """For each event kopf copies the whole object twice to find what changed, for handlers of changes. We have none."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:  # noqa: ARG002
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is kept either."""


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
    made.persistence.diffbase_storage = _NothingCompared()
    ours = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE},{labels.MODEL}"

    for group, version, plural in (*_CHILDREN.values(), _PODS):
        made.watching.label_selectors[group, version, plural] = ours
    return made
