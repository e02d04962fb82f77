"""Resources and their children as watches and our own writes told of them, so that a pass need not ask.

A GET of the resource and lists of its children, at each pass of each of a thousand models, would be most of what the operator
asks of an API server. Children are listed once for a namespace: a model that is new in it needs no list. Kept as JSON: as
Python objects the children of a thousand models take several times the memory.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
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
# An answer of ours may come after the news that its object went: within seconds.
_GONE_REMEMBERED = 8192


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
        metadata = item["metadata"]
        # kopf's views of an object are no JSON; its parts are.
        return cls(metadata["uid"], metadata["resourceVersion"], json.dumps({**item}, separators=(",", ":")))

    def is_later_than(self, other: "_Known") -> bool:
        """Resource versions of one kind are decimal numbers that rise."""
        return (len(self.version), self.version) > (len(other.version), other.version)


@dataclass(frozen=True, slots=True)
class _News:
    """A child was changed, or went."""

    model: str
    place: tuple[ChildKind, str]
    child: _Known
    is_gone: bool


@dataclass(slots=True)
class _Children:
    """The children of all resources of a namespace, by the resource's name, then by kind and name."""

    families: dict[str, dict[tuple[ChildKind, str], _Known]] = field(default_factory=dict)

    def follow(self, news: _News) -> None:
        """Watches are late: what is older than what is known changes nothing."""
        family = self.families.setdefault(news.model, {})
        known = family.get(news.place)
        if not news.is_gone:
            if known is None or news.child.is_later_than(known):
                family[news.place] = news.child
        elif known is not None and known.uid == news.child.uid:  # one of its name that is there by now has another
            del family[news.place]
        if not family:
            del self.families[news.model]

    def of(self, model: str) -> tuple[LiveChild, ...]:
        """As they were told."""
        family = self.families.get(model, {})
        return tuple(live_child(kind, json.loads(known.text)) for (kind, _), known in family.items())


@dataclass(slots=True)
class Listing:
    """A list of a namespace's children that is being read.

    `asked_at` is on the monotonic clock. `meanwhile` is what was told while it was read: nobody can say whether the list has it.
    """

    namespace: str
    asked_at: float
    children: _Children = field(default_factory=_Children)
    meanwhile: list[_News] = field(default_factory=list)

    def found(self, child: LiveChild) -> None:
        """The list has it."""
        self.children.follow(_news(child.kind, child.manifest))

    def of(self, model: str) -> tuple[LiveChild, ...]:
        """What it has of a resource."""
        return self.children.of(model)


class KnownObjects:
    """The resources that were told of, and the children in namespaces that were listed."""

    def __init__(self) -> None:
        self._models: dict[Key, tuple[_Known, float]] = {}
        self._namespaces: dict[str, Listing] = {}
        self._awaited: dict[str, Listing] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        """UIDs, which never come back."""
        self._doubted_at = float("-inf")

    def model(self, key: Key) -> dict[str, Any] | None:
        """The resource as it was told of last; None when it must be read."""
        known, told_at = self._models.get(key, (None, float("-inf")))
        if known is None or not self._is_trusted(told_at):
            return None
        model: dict[str, Any] = json.loads(known.text)
        return model

    def tell_model(self, item: Mapping[str, Any], *, is_gone: bool = False, at: float | None = None) -> None:
        """A watch told of a resource, or we read or wrote it and asked to do so `at`: what began anew since makes it doubtful."""
        if self._is_over(item, is_gone=is_gone):
            return
        key = item["metadata"]["namespace"], item["metadata"]["name"]
        told = _Known.of(item)
        known, _ = self._models.get(key, (None, 0.0))
        if is_gone:
            if known is not None and known.uid == told.uid:
                del self._models[key]
        elif known is None or not known.is_later_than(told):
            self._models[key] = told, clock.monotonic() if at is None else at

    def forget_model(self, key: Key) -> None:
        """What is known of it turned out to be wrong."""
        self._models.pop(key, None)

    def children(self, key: Key) -> tuple[LiveChild, ...] | None:
        """All children of a resource; None when its namespace must be listed."""
        namespace, model = key
        listing = self._namespaces.get(namespace)
        return listing.of(model) if listing is not None and self._is_trusted(listing.asked_at) else None

    def listing(self, namespace: str) -> Listing:
        """The children of a namespace are about to be listed."""
        self._awaited[namespace] = listing = Listing(namespace, asked_at=clock.monotonic())
        return listing

    def listed(self, listing: Listing) -> None:
        """All of the list was read."""
        for news in listing.meanwhile:
            listing.children.follow(news)
        listing.meanwhile.clear()
        self._namespaces[listing.namespace] = listing
        if self._awaited.get(listing.namespace) is listing:
            del self._awaited[listing.namespace]

    def tell_child(self, kind: ChildKind, item: Mapping[str, Any], *, is_gone: bool = False) -> None:
        """A watch told of a child, or we wrote it."""
        if self._is_over(item, is_gone=is_gone):
            return
        namespace = item["metadata"]["namespace"]
        awaited, listing = self._awaited.get(namespace), self._namespaces.get(namespace)
        if awaited is None and listing is None:
            return
        news = _news(kind, item, is_gone=is_gone)
        if awaited is not None:
            awaited.meanwhile.append(news)
        if listing is not None:
            listing.children.follow(news)

    def doubt(self) -> None:
        """A watch began anew: of what was deleted before that it tells nothing."""
        self._doubted_at = clock.monotonic()

    def is_undoubted_for(self, seconds: float) -> bool:
        """Whether no watch began anew for so long."""
        return clock.monotonic() - self._doubted_at >= seconds

    def _is_over(self, item: Mapping[str, Any], *, is_gone: bool) -> bool:
        """Whether an object went before this was told of it."""
        uid = item["metadata"]["uid"]
        if is_gone:
            self._gone[uid] = None
            if len(self._gone) > _GONE_REMEMBERED:
                self._gone.popitem(last=False)
        return uid in self._gone and not is_gone

    def _is_trusted(self, since: float) -> bool:
        return since > self._doubted_at and clock.monotonic() - since <= _TRUSTED_SECONDS


def _news(kind: ChildKind, item: Mapping[str, Any], *, is_gone: bool = False) -> _News:
    metadata = item["metadata"]
    # Who manages which field is half of an object, and nobody asks.
    kept = {**item, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
    return _News(metadata["labels"][labels.MODEL], (kind, metadata["name"]), _Known.of(kept), is_gone)
