"""Objects of an API server in memory: resource versions, generations, conflicts, labels, and a log of changes to watch."""

import copy
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


class RefusedError(Exception):
    """The answer is this HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Change:
    """An entry of the log."""

    version: int
    type: str
    object: Object


class Objects:
    """Everything by plural, namespace and name. `on_change` hears of each change after it is made."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str, str], Object] = {}
        self._numbers = itertools.count(1)
        self.version = 0
        self.log: dict[str, list[Change]] = defaultdict(list)
        self.on_change: list[Callable[[str, Change], None]] = []

    def get(self, plural: str, namespace: str, name: str) -> Object:
        try:
            return self._items[plural, namespace, name]
        except KeyError:
            raise RefusedError(404, f"{plural} {namespace}/{name} not found") from None

    def list(self, plural: str, *, namespace: str | None, selector: str) -> list[Object]:
        return [
            item
            for (kind, where, _), item in self._items.items()
            if kind == plural and namespace in {None, where} and matches(item, selector)
        ]

    def create(self, plural: str, namespace: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        if (plural, namespace, name) in self._items:
            raise RefusedError(409, f"{plural} {namespace}/{name} already exists")
        made = copy.deepcopy(body)
        made["metadata"] |= {"namespace": namespace, "uid": f"uid-{next(self._numbers)}", "generation": 1}
        return self._put(plural, "ADDED", made)

    def apply(self, plural: str, namespace: str, name: str, body: Object) -> Object:
        """Server-side apply by the only manager there is. Nothing is written when nothing is different."""
        before = self._items.get((plural, namespace, name))
        if before is None:
            return self.create(plural, namespace, body)
        after = copy.deepcopy({**before, **{part: body[part] for part in body if part != "metadata"}})
        after["metadata"] |= {key: value for key, value in body["metadata"].items() if key != "namespace"}
        if after == before:
            return before
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] += 1
        return self._put(plural, "MODIFIED", after)

    def replace_status(self, plural: str, namespace: str, name: str, body: Object) -> Object:
        """PUT: refused when somebody wrote since the version that the body carries."""
        before = self.get(plural, namespace, name)
        if body["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
            raise RefusedError(409, f"{plural} {namespace}/{name} was modified")
        return self.set_status(plural, namespace, name, body["status"])

    def set_status(self, plural: str, namespace: str, name: str, status: Object) -> Object:
        before = self.get(plural, namespace, name)
        if before.get("status") == status:
            return before
        return self._put(plural, "MODIFIED", {**copy.deepcopy(before), "status": copy.deepcopy(status)})

    def merge(self, plural: str, namespace: str, name: str, body: Object) -> Object:
        """A merge patch of top-level fields, as for events."""
        return self._put(plural, "MODIFIED", {**copy.deepcopy(self.get(plural, namespace, name)), **body})

    def delete(self, plural: str, namespace: str, name: str) -> Object:
        gone = copy.deepcopy(self.get(plural, namespace, name))
        del self._items[plural, namespace, name]
        return self._tell(plural, "DELETED", gone)

    def _put(self, plural: str, type_: str, item: Object) -> Object:
        metadata = item["metadata"]
        self._items[plural, metadata["namespace"], metadata["name"]] = item
        return self._tell(plural, type_, item)

    def _tell(self, plural: str, type_: str, item: Object) -> Object:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        change = Change(self.version, type_, copy.deepcopy(item))
        self.log[plural].append(change)
        for hear in self.on_change:
            hear(plural, change)
        return item


def matches(item: Object, selector: str) -> bool:
    """Whether a label selector of `key` and `key=value` terms fits."""
    labels = item["metadata"].get("labels", {})
    return all(
        labels.get(key) == value if equals else key in labels
        for key, equals, value in (term.partition("=") for term in _terms(selector))
    )


def _terms(selector: str) -> Iterator[str]:
    return (term for term in selector.split(",") if term)
