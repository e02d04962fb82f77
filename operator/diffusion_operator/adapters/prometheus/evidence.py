"""From increases of counters to what gates are judged by. Pure."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf

from diffusion_operator.core.gates import Quality, Speed
from diffusion_operator.core.verdict import Buckets, LengthBucket, Moments, Proportion, Unreadable

from .families import ERRORS, LATENCY, PAIRS, REPETITION, Family
from .samples import Increase

LENGTHS = ("1-32", "33-64", "65-128", "129-256", "257-512", "513-1024", "1025+")
"""Ranges of output tokens, as the gateways label them."""

NO_AR = Unreadable("no AR revision serves that latencies could be compared with: see the condition FallbackAvailable")

_Sums = dict[Family, dict[str, float]]
"""Rises of one revision by family and range of lengths, which is empty where a family has none. What is not there is 0."""

Absent = Callable[[Collection[Family], str], Unreadable | None]
"""Why there is no series of these families with this revision; None when that only means that nothing happened yet."""


def quality(found: Sequence[Increase], *, revision: str, absent: Absent, is_scored: bool) -> Quality:
    """Pairs and repetition of a revision. Without `is_scored` nobody asks for pairs."""
    sums = _sums(found)[revision]
    pairs: Moments | Unreadable = Moments()
    if is_scored:
        pairs = _missing(sums, PAIRS, revision, absent) or _pairs(sums)
    repetition = _missing(sums, REPETITION, revision, absent) or Proportion(*(sums[one][""] for one in REPETITION))
    return Quality(pairs=pairs, repetition=repetition)


def speed(found: Sequence[Increase], *, revision: str, ar: str | None, absent: Absent) -> Speed:
    """First tokens, latencies beside those of AR, and errors of a revision."""
    by_revision = _sums(found)
    sums = by_revision[revision]
    return Speed(
        first_token=_missing(sums, (Family.FIRST_TOKEN,), revision, absent)
        or histogram(one for one in found if one.counter.revision == revision),
        latency=_latency(by_revision, revision=revision, ar=ar, absent=absent),
        errors=_missing(sums, ERRORS, revision, absent) or _errors(sums),
    )


def histogram(found: Iterable[Increase]) -> Buckets:
    """All pods' buckets in one, at the bounds that all of them have: gateways of two releases may differ in the others."""
    pods: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for one in found:
        if one.counter.family is Family.FIRST_TOKEN:
            pods[one.counter.pod, one.counter.arm][float(one.counter.le)] = one.rise
    # A pod that answered nothing must not take bounds away.
    counted = [counts for counts in pods.values() if any(counts.values())] or list(pods.values())
    if not counted:
        return Buckets()
    bounds = sorted(set.intersection(*(set(counts) for counts in counted)) | {inf})
    return Buckets(tuple(bounds), tuple(sum(counts.get(bound, 0.0) for counts in counted) for bound in bounds))


def _latency(
    by_revision: Mapping[str, _Sums], *, revision: str, ar: str | None, absent: Absent
) -> tuple[LengthBucket, ...] | Unreadable:
    if ar is None:
        return NO_AR
    diffusion, beside = by_revision[revision], by_revision[ar]
    for sums, arm in ((diffusion, revision), (beside, ar)):
        if missing := _missing(sums, LATENCY, arm, absent):
            return missing
    return tuple(LengthBucket(diffusion=_seconds(diffusion, length), ar=_seconds(beside, length)) for length in LENGTHS)


def _seconds(sums: _Sums, length: str) -> Moments:
    return Moments(*(sums[family][length] for family in LATENCY))


def _errors(sums: _Sums) -> Proportion:
    # A request is counted when it is asked for and fails later: one from before the span may fail in it.
    asked, failed = (sums[one][""] for one in ERRORS)
    return Proportion(max(asked, failed), failed)


def _pairs(sums: _Sums) -> Moments:
    # A counter cannot fall, so what a pair adds to the sum comes in two: above 0 and below.
    total = sums[Family.NLL_ABOVE][""] - sums[Family.NLL_BELOW][""]
    return Moments(sums[Family.PAIRS][""], total, sums[Family.NLL_SQUARED][""])


def _sums(found: Iterable[Increase]) -> Mapping[str, _Sums]:
    """Over all pods and roles, by revision."""
    by_revision: dict[str, _Sums] = defaultdict(lambda: defaultdict(lambda: defaultdict(float)))
    for one in found:
        counter = one.counter
        by_revision[counter.revision][counter.family][counter.length] += one.rise
    return by_revision


def _missing(sums: _Sums, families: Collection[Family], revision: str, absent: Absent) -> Unreadable | None:
    lacking = [family for family in families if family not in sums]
    return absent(lacking, revision) if lacking else None
