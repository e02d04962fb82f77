"""Children as watches and our own writes told of them, so that a pass need not list them.

Lists of each kind, for each of a thousand models, at each of its passes would be most of what the operator asks of an API
server. Kept as JSON: as Python objects the children of a thousand models take several times the memory.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from diffusion_operator.api import labels
from diffusion_operator.core.children import ChildKind

from . import clock
from .cluster import LiveChild

Key = tuple[str, str]
"""Namespace and name of a resource."""

# Watches tell of every change, and say so when they begin anew; this is for what nobody thought of.
_TRUSTED_SECONDS = 1800.0


def live_child(kind: ChildKind, item: Mapping[str, Any]) -> LiveChild:
    """From an object as the API server gives it."""
    metadata = item["metadata"]
    return LiveChild(
        kind=kind,
        name=metadata["name"],
        revision=metadata["labels"].get(labels.REVISION) or metadata["labels"].get(labels.INSPECTION, ""),
        is_going="deletionTimestamp" in metadata,
        manifest=item,
    )


@dataclass(frozen=True, slots=True)
class _Known:
    uid: str
    version: str
    text: str

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "_Known":
        metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
        text = json.dumps({**item, "metadata": metadata}, separators=(",", ":"))
        return cls(metadata["uid"], metadata["resourceVersion"], text)


@dataclass(slots=True)
class Family:
    """The children of one resource.

    `asked_at` is when they were asked for, on the monotonic clock. `is_complete` once the answer is there; `is_stirred` when
    something changed while it was awaited, so that nobody can say whether the answer has it.
    """

    asked_at: float
    children: dict[tuple[ChildKind, str], _Known] = field(default_factory=dict)
    is_complete: bool = False
    is_stirred: bool = False


class KnownChildren:
    """The children of all resources whose loops have asked for them."""

    def __init__(self) -> None:
        self._families: dict[Key, Family] = {}
        self._doubted_at = float("-inf")

    def of(self, key: Key) -> tuple[LiveChild, ...] | None:
        """All of them; None when they must be listed."""
        family = self._families.get(key)
        if family is None or not family.is_complete or family.asked_at <= self._doubted_at:
            return None
        if clock.monotonic() - family.asked_at > _TRUSTED_SECONDS:
            return None
        return tuple(live_child(kind, json.loads(known.text)) for (kind, _), known in family.children.items())

    def listing(self, key: Key) -> Family:
        """They are about to be listed."""
        self._families[key] = family = Family(asked_at=clock.monotonic())
        return family

    def listed(self, family: Family, children: Collection[LiveChild]) -> None:
        """The answer. Not kept when something changed meanwhile: the next pass lists again."""
        if not family.is_stirred:
            family.children = {(child.kind, child.name): _Known.of(child.manifest) for child in children}
            family.is_complete = True

    def tell(self, key: Key, kind: ChildKind, item: Mapping[str, Any], *, is_gone: bool = False) -> None:
        """A watch told of an object, or we wrote it. Watches are late: what is older than what is known changes nothing."""
        family = self._families.get(key)
        if family is None:
            return
        if not family.is_complete:
            family.is_stirred = True
            return
        metadata = item["metadata"]
        place = (kind, str(metadata["name"]))
        known = family.children.get(place)
        if is_gone:
            # One of its name that is there by now has another UID.
            if known is not None and known.uid == metadata["uid"]:
                del family.children[place]
        elif known is None or _is_later(metadata["resourceVersion"], known.version):
            family.children[place] = _Known.of(item)

    def doubt(self) -> None:
        """A watch began anew: of what was deleted before that it tells nothing."""
        self._doubted_at = clock.monotonic()

    def forget(self, key: Key) -> None:
        """The resource is gone."""
        self._families.pop(key, None)


def _is_later(version: str, other: str) -> bool:
    """Resource versions of one kind are decimal numbers that rise."""
    return (len(version), version) > (len(other), other)
