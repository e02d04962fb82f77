"""Whether a live object still is what was applied.

A server-side apply that changes nothing is still a request with a write verb, so an idle operator compares instead.
The API server adds defaults and other people add fields; what counts is that every field of ours has our value. A
field that we no longer want is told by the hash annotation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from diffusion_operator.api.units import stored_amount

# Lists that the API server merges by these keys. Others may add elements of their own.
_MERGE_KEYS = ("mountPath", "containerPort", "port", "uid", "name")
# Maps that the API server replaces as a whole: a key of someone else's is a difference.
_ATOMIC_MAPS = frozenset({"selector", "nodeSelector"})
# Quantities come back in canonical form: 1024Mi as 1Gi.
_QUANTITY_PARENTS = frozenset({"requests", "limits"})


def is_in_place(desired: Any, live: Any, *, inside: str = "") -> bool:
    """Whether `live` has every field of `desired` with the same value. `inside` is the name of the field that holds both."""
    if inside in _ATOMIC_MAPS:
        return bool(desired == live)
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            key in live and is_in_place(value, live[key], inside=inside if inside in _QUANTITY_PARENTS else key)
            for key, value in desired.items()
        )
    if isinstance(desired, list):
        return isinstance(live, list) and _list_is_in_place(desired, live)
    return bool(desired == live) or (
        (inside in _QUANTITY_PARENTS or inside == "sizeLimit") and _same_quantity(desired, live)
    )


def _list_is_in_place(desired: Sequence[Any], live: Sequence[Any]) -> bool:
    key = next((key for key in _MERGE_KEYS if all(isinstance(item, Mapping) and key in item for item in desired)), None)
    if key is None or not desired:
        return len(desired) == len(live) and all(map(is_in_place, desired, live))
    by_key = {item.get(key): item for item in live if isinstance(item, Mapping)}
    return all(is_in_place(item, by_key.get(item[key])) for item in desired)


def _same_quantity(one: Any, other: Any) -> bool:
    try:
        return stored_amount(one) == stored_amount(other)
    except ValueError:
        return False
