"""What counts as drift, and what does not."""

import copy
from typing import Any

import pytest
from diffusion_operator.core.children import ChildKind, children
from diffusion_operator.core.drift import is_in_place

from tests.unit.operator.builders import a_model, after, seen

CHILDREN = {child.kind: child.manifest for child in children(after(a_model(resources={"memory": "1024Mi"}), seen()))}
DEPLOYMENT = CHILDREN[ChildKind.DEPLOYMENT]


def live(kind: ChildKind = ChildKind.DEPLOYMENT) -> dict[str, Any]:
    return copy.deepcopy(dict(CHILDREN[kind]))


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("kind", list(CHILDREN))
def test_what_was_applied_is_in_place(kind: ChildKind) -> None:
    assert is_in_place(CHILDREN[kind], live(kind))


def test_defaults_of_the_api_server_are_no_drift() -> None:
    seen_ = live()
    seen_["metadata"] |= {"uid": "1", "generation": 3}
    seen_["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    container(seen_)["imagePullPolicy"] = "IfNotPresent"
    container(seen_)["ports"][0]["protocol"] = "TCP"
    assert is_in_place(DEPLOYMENT, seen_)


def test_a_quantity_in_canonical_form_is_no_drift() -> None:
    seen_ = live()
    container(seen_)["resources"]["limits"]["memory"] = "1Gi"
    assert is_in_place(DEPLOYMENT, seen_)


@pytest.mark.parametrize(("written", "stored"), [("0.0001", "100u"), ("0.0005", "500u"), ("1000m", "1")])
def test_a_small_quantity_in_the_api_servers_form_is_no_drift(written: str, stored: str) -> None:
    assert is_in_place({"requests": {"cpu": written}}, {"requests": {"cpu": stored}})
    assert not is_in_place({"requests": {"cpu": written}}, {"requests": {"cpu": "700u"}})


def test_what_others_add_to_lists_with_keys_is_no_drift() -> None:
    seen_ = live()
    seen_["spec"]["template"]["spec"]["containers"].insert(0, {"name": "sidecar"})
    seen_["spec"]["template"]["spec"]["volumes"].append({"name": "more"})
    assert is_in_place(DEPLOYMENT, seen_)


def change_memory(m: dict[str, Any]) -> None:
    container(m)["resources"]["limits"]["memory"] = "2Gi"


def change_command(m: dict[str, Any]) -> None:
    container(m)["command"].append("--debug")


def drop_a_volume(m: dict[str, Any]) -> None:
    m["spec"]["template"]["spec"]["volumes"].pop()


def drop_a_label(m: dict[str, Any]) -> None:
    m["metadata"]["labels"].popitem()


def change_the_owner(m: dict[str, Any]) -> None:
    m["metadata"]["ownerReferences"][0]["uid"] = "other"


def change_the_hash(m: dict[str, Any]) -> None:
    m["metadata"]["annotations"] = dict.fromkeys(m["metadata"]["annotations"], "other")


@pytest.mark.parametrize(
    "damage", [change_memory, change_command, drop_a_volume, drop_a_label, change_the_owner, change_the_hash]
)
def test_a_changed_field_of_ours_is_drift(damage: Any) -> None:
    seen_ = live()
    damage(seen_)
    assert not is_in_place(DEPLOYMENT, seen_)


def test_a_foreign_key_in_a_selector_is_drift() -> None:
    seen_ = live(ChildKind.SERVICE)
    seen_["spec"]["selector"]["wrong"] = "label"
    assert not is_in_place(CHILDREN[ChildKind.SERVICE], seen_)
