"""Which versions of objects we wrote ourselves: watches tell of them too, and they are no news."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

Version = tuple[str, str]
"""UID and resource version of an object."""

# Watches tell within seconds. Whoever is forgotten too early costs one pass that finds nothing to do.
_REMEMBERED = 8192


def version_of(metadata: Mapping[str, Any]) -> Version:
    """From the metadata of an object."""
    return str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))


class OwnWrites:
    """The last few thousand of them."""

    def __init__(self) -> None:
        self._versions: OrderedDict[Version, None] = OrderedDict()

    def note(self, metadata: Mapping[str, Any]) -> None:
        """We wrote an object; `metadata` is from the answer."""
        self._versions[version_of(metadata)] = None
        if len(self._versions) > _REMEMBERED:
            self._versions.popitem(last=False)

    def __contains__(self, version: Version) -> bool:
        return version in self._versions
