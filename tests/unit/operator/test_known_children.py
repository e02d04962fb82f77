"""What is known of children between two lists of them."""

from collections.abc import Callable
from typing import Any

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.known_children import KnownChildren, live_child
from diffusion_operator.api import labels
from diffusion_operator.core.children import ChildKind

KEY = ("stories", "storyteller")


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock on."""
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def item(*, version: str = "10", uid: str = "1", replicas: int = 1) -> dict[str, Any]:
    metadata = {
        "name": "storyteller-0badcafe",
        "uid": uid,
        "resourceVersion": version,
        "labels": {labels.REVISION: "0badcafe"},
        "managedFields": [{"manager": "diffusion-operator"}],
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}


def listed(*items: dict[str, Any]) -> KnownChildren:
    known = KnownChildren()
    known.listed(known.listing(KEY), [live_child(ChildKind.DEPLOYMENT, each) for each in items])
    return known


def replicas(known: KnownChildren) -> list[int]:
    children = known.of(KEY)
    assert children is not None
    return [child.manifest["spec"]["replicas"] for child in children]


def tell(known: KnownChildren, told: dict[str, Any], *, is_gone: bool = False) -> None:
    known.tell(KEY, ChildKind.DEPLOYMENT, told, is_gone=is_gone)


def test_what_was_listed_is_known_but_for_who_manages_its_fields() -> None:
    children = listed(item()).of(KEY)
    assert children is not None
    (child,) = children
    assert (child.kind, child.name, child.revision, child.is_going) == (
        ChildKind.DEPLOYMENT,
        "storyteller-0badcafe",
        "0badcafe",
        False,
    )
    assert child.manifest["spec"] == {"replicas": 1}
    assert "managedFields" not in child.manifest["metadata"]


def test_nothing_is_known_of_a_resource_whose_children_were_never_listed() -> None:
    known = KnownChildren()
    tell(known, item())
    assert known.of(KEY) is None


def test_changes_are_followed() -> None:
    known = listed()
    tell(known, item())
    assert replicas(known) == [1]
    tell(known, item(version="11", replicas=2))
    assert replicas(known) == [2]
    tell(known, item(version="12"), is_gone=True)
    assert known.of(KEY) == ()


def test_late_news_change_nothing() -> None:
    known = listed(item(version="10", replicas=2))
    tell(known, item(version="9", replicas=1))
    assert replicas(known) == [2]


def test_the_late_end_of_an_object_is_not_that_of_its_successor() -> None:
    known = listed()
    tell(known, item(version="12", uid="2"))
    tell(known, item(version="11", uid="1"), is_gone=True)
    assert replicas(known) == [1]


def test_a_list_during_which_something_changed_is_not_kept() -> None:
    known = KnownChildren()
    listing = known.listing(KEY)
    tell(known, item(version="12"), is_gone=True)
    known.listed(listing, [live_child(ChildKind.DEPLOYMENT, item(version="10"))])
    assert known.of(KEY) is None


def test_a_watch_that_begins_anew_makes_everything_doubtful_until_it_is_listed() -> None:
    known = listed(item())
    known.doubt()
    assert known.of(KEY) is None


def test_a_watch_that_begins_anew_while_children_are_listed_makes_the_list_doubtful(
    later: Callable[[float], None],
) -> None:
    known = KnownChildren()
    listing = known.listing(KEY)
    later(1.0)
    known.doubt()
    known.listed(listing, [])
    assert known.of(KEY) is None


def test_a_list_is_trusted_for_half_an_hour(later: Callable[[float], None]) -> None:
    known = listed(item())
    later(1799.0)
    assert known.of(KEY) is not None
    later(2.0)
    assert known.of(KEY) is None


def test_a_resource_that_is_gone_is_forgotten() -> None:
    known = listed(item())
    known.forget(KEY)
    assert known.of(KEY) is None
