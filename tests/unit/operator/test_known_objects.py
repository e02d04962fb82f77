"""What is known of resources and children between two readings of them."""

from collections.abc import Callable
from typing import Any

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.known_objects import KnownObjects, live_child
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


def item(*, version: str = "10", uid: str = "1", replicas: int = 1, model: str = "storyteller") -> dict[str, Any]:
    metadata = {
        "name": f"{model}-0badcafe",
        "namespace": "stories",
        "uid": uid,
        "resourceVersion": version,
        "labels": {labels.MODEL: model, labels.REVISION: "0badcafe"},
        "managedFields": [{"manager": "diffusion-operator"}],
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}


def resource(*, version: str = "10", uid: str = "1", generation: int = 1) -> dict[str, Any]:
    metadata = {"name": "storyteller", "namespace": "stories", "uid": uid, "resourceVersion": version}
    return {"metadata": {**metadata, "generation": generation}, "spec": {}}


def listed(*items: dict[str, Any]) -> KnownObjects:
    known = KnownObjects()
    listing = known.listing("stories")
    for each in items:
        listing.found(live_child(ChildKind.DEPLOYMENT, each))
    known.listed(listing)
    return known


def replicas(known: KnownObjects) -> list[int]:
    children = known.children(KEY)
    assert children is not None
    return [child.manifest["spec"]["replicas"] for child in children]


def tell(known: KnownObjects, told: dict[str, Any], *, is_gone: bool = False) -> None:
    known.tell_child(ChildKind.DEPLOYMENT, told, is_gone=is_gone)


def generation(known: KnownObjects) -> int | None:
    model = known.model(KEY)
    return model and model["metadata"]["generation"]


def test_what_was_listed_is_known_but_for_who_manages_its_fields() -> None:
    children = listed(item()).children(KEY)
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


def test_nothing_is_known_of_children_in_a_namespace_that_was_never_listed() -> None:
    known = KnownObjects()
    tell(known, item())
    assert known.children(KEY) is None


def test_a_resource_that_is_new_in_a_namespace_that_was_listed_has_no_children() -> None:
    known = listed(item(model="poet"))
    assert known.children(KEY) == ()
    tell(known, item())
    assert replicas(known) == [1]


def test_changes_are_followed() -> None:
    known = listed()
    tell(known, item())
    assert replicas(known) == [1]
    tell(known, item(version="11", replicas=2))
    assert replicas(known) == [2]
    tell(known, item(version="12"), is_gone=True)
    assert known.children(KEY) == ()


def test_late_news_change_nothing() -> None:
    known = listed(item(version="10", replicas=2))
    tell(known, item(version="9", replicas=1))
    assert replicas(known) == [2]


def test_the_late_end_of_an_object_is_not_that_of_its_successor() -> None:
    known = listed()
    tell(known, item(version="12", uid="2"))
    tell(known, item(version="11", uid="1"), is_gone=True)
    assert replicas(known) == [1]


def test_what_changes_while_a_list_is_read_is_known_with_it() -> None:
    known = KnownObjects()
    listing = known.listing("stories")
    tell(known, item(version="12", uid="1"), is_gone=True)
    tell(known, item(version="13", uid="2", model="poet", replicas=3))
    listing.found(live_child(ChildKind.DEPLOYMENT, item(version="10", uid="1")))
    listing.found(live_child(ChildKind.DEPLOYMENT, item(version="11", uid="2", model="poet")))
    known.listed(listing)
    assert known.children(KEY) == ()
    (poet,) = known.children(("stories", "poet")) or ()
    assert poet.manifest["spec"] == {"replicas": 3}


def test_what_is_not_in_the_next_list_is_gone() -> None:
    known = listed(item())
    known.listed(known.listing("stories"))
    assert known.children(KEY) == ()


def test_while_a_list_is_read_again_the_one_before_is_followed() -> None:
    known = listed(item())
    known.listing("stories")
    tell(known, item(version="11", replicas=2))
    assert replicas(known) == [2]


def test_a_list_that_broke_off_changes_nothing() -> None:
    known = listed(item())
    known.listing("stories").found(live_child(ChildKind.DEPLOYMENT, item(version="11", replicas=2)))
    assert replicas(known) == [1]


def test_a_watch_that_begins_anew_makes_everything_doubtful_until_it_is_read() -> None:
    known = listed(item())
    known.tell_model(resource())
    known.doubt()
    assert known.children(KEY) is None
    assert known.model(KEY) is None


def test_a_watch_that_begins_anew_while_children_are_listed_makes_the_list_doubtful(
    later: Callable[[float], None],
) -> None:
    known = KnownObjects()
    listing = known.listing("stories")
    later(1.0)
    known.doubt()
    known.listed(listing)
    assert known.children(KEY) is None


def test_what_was_read_is_trusted_for_half_an_hour(later: Callable[[float], None]) -> None:
    known = listed(item())
    known.tell_model(resource())
    later(1799.0)
    assert known.children(KEY) is not None
    assert known.model(KEY) is not None
    later(2.0)
    assert known.children(KEY) is None
    assert known.model(KEY) is None


def test_a_resource_is_known_as_it_was_told_last() -> None:
    known = KnownObjects()
    assert generation(known) is None
    known.tell_model(resource(version="9", generation=1))
    known.tell_model(resource(version="11", generation=3))
    known.tell_model(resource(version="10", generation=2))
    assert generation(known) == 3


def test_a_resource_that_is_gone_or_was_wrong_must_be_read() -> None:
    known = KnownObjects()
    known.tell_model(resource(uid="2", version="12"))
    known.tell_model(resource(uid="1", version="11"), is_gone=True)
    assert generation(known) == 1
    known.tell_model(resource(uid="2", version="13"), is_gone=True)
    assert generation(known) is None
    known.tell_model(resource(uid="3"))
    known.forget_model(KEY)
    assert generation(known) is None


def test_a_resource_that_is_told_again_unchanged_is_trusted_again(later: Callable[[float], None]) -> None:
    known = KnownObjects()
    known.tell_model(resource())
    known.doubt()
    later(1.0)
    known.tell_model(resource())
    assert generation(known) == 1


def test_an_answer_that_comes_after_the_news_of_the_end_brings_nothing_back() -> None:
    known = listed(item())
    known.tell_model(resource())
    tell(known, item(version="12"), is_gone=True)
    known.tell_model(resource(version="12"), is_gone=True)
    tell(known, item(version="11"))
    known.tell_model(resource(version="11"))
    assert known.children(KEY) == ()
    assert generation(known) is None


def test_doubts_are_over_when_no_watch_began_for_a_while(later: Callable[[float], None]) -> None:
    known = KnownObjects()
    assert known.is_undoubted_for(0.3)
    known.doubt()
    assert not known.is_undoubted_for(0.3)
    later(0.5)
    assert known.is_undoubted_for(0.3)


def test_an_answer_that_was_asked_for_before_a_watch_began_anew_is_doubtful(later: Callable[[float], None]) -> None:
    known = KnownObjects()
    asked_at = clock.monotonic()
    later(1.0)
    known.doubt()
    later(1.0)
    known.tell_model(resource(), at=asked_at)
    assert generation(known) is None
