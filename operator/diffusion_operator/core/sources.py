"""Model sources: what a URL means for a pod."""

from dataclasses import dataclass
from enum import StrEnum

MOUNT = "/models/source"
CACHE = "/models/cache"


class Scheme(StrEnum):
    """Where a checkpoint comes from."""

    HUB = "hf"
    CLAIM = "pvc"
    IMAGE = "image"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Source:
    """A model source.

    `name` is the repository, claim, image reference or folder; `path` the checkpoint's folder in the pod, None when
    the worker downloads it.
    """

    scheme: Scheme
    name: str
    path: str | None


def parse_source(url: str) -> Source:
    """Read a model source.

    Raises:
        ValueError: its scheme is none of ours. The API server refuses such a source, so it was stored without
        validation.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in set(Scheme):
        raise ValueError(f"{url!r} is not a model source: write hf://, pvc://, image:// or file:/// and what follows")
    match Scheme(scheme):
        case Scheme.HUB:
            return Source(Scheme.HUB, rest, None)
        case Scheme.IMAGE:
            return Source(Scheme.IMAGE, rest, MOUNT)
        case Scheme.FILE:
            return Source(Scheme.FILE, rest, rest)
        case Scheme.CLAIM:
            claim, _, folder = rest.partition("/")
            folder = folder.strip("/")
            return Source(Scheme.CLAIM, claim, f"{MOUNT}/{folder}" if folder else MOUNT)
