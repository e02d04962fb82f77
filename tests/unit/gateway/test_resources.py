"""Reading resources that are old, new, half-written or strange."""

from typing import Any

import pytest
from diffusion_gateway.resources import (
    DEFAULT_MIN_OUTPUT_TOKENS,
    DEFAULT_WAIT_SECONDS,
    build_table,
    read_model,
    read_slice,
)
from diffusion_gateway.routes import ServiceKey
from diffusion_gateway.workload import Workload

ARM = {
    "role": "stable",
    "revision": "aaaa0001",
    "kind": "diffusion",
    "service": "story-aaaa0001",
    "port": 8001,
    "percent": 100,
}


def resource(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "story", "namespace": "default"}} | parts


def endpoints(*items: dict[str, Any], **parts: Any) -> dict[str, Any]:
    metadata = {"name": "s-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "s"}}
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": list(items)} | parts


def test_a_resource_that_was_just_created_has_no_arms() -> None:
    seen = read_model(resource(spec={}))
    assert (seen.key, seen.arms, seen.generation) == ("default/story", (), 0)
    assert (seen.min_output_tokens, seen.wait_seconds) == (DEFAULT_MIN_OUTPUT_TOKENS, DEFAULT_WAIT_SECONDS)


def test_rules_and_limits_are_read() -> None:
    seen = read_model(resource(spec={"routing": {"minOutputTokens": 0}, "limits": {"requestTimeout": "1m30s"}}))
    assert (seen.min_output_tokens, seen.wait_seconds) == (0, 90.0)


def test_rules_have_the_defaults_that_the_resource_documents() -> None:
    seen = read_model(resource(spec={}))
    assert seen.causal_workloads == {Workload.CODE, Workload.MATH}
    assert (seen.detects_workload, seen.is_sticky, seen.refuses_unconverged) == (True, False, True)


def test_rules_can_be_switched_off_and_on() -> None:
    routing = {"causalWorkloads": ["math"], "detectWorkload": False, "sticky": "user", "onUnconverged": "Accept"}
    seen = read_model(resource(spec={"routing": routing}))
    assert seen.causal_workloads == {Workload.MATH}
    assert (seen.detects_workload, seen.is_sticky, seen.refuses_unconverged) == (False, True, False)
    assert read_model(resource(spec={"routing": {"causalWorkloads": []}})).causal_workloads == frozenset()


def test_who_sets_the_cap_of_steps_accepts_what_it_gives() -> None:
    capped = {"sampler": {"maxDenoisingSteps": 10}, "routing": {"onUnconverged": "Fallback"}}
    assert not read_model(resource(spec=capped)).refuses_unconverged
    assert read_model(resource(spec={"sampler": {"topP": 0.9}})).refuses_unconverged


def test_what_a_newer_operator_calls_a_rule_is_passed_over() -> None:
    seen = read_model(resource(spec={"routing": {"causalWorkloads": ["code", "law"], "sticky": "city"}}))
    assert (seen.causal_workloads, seen.is_sticky) == ({Workload.CODE}, False)


def test_the_longest_request_is_what_every_routed_revision_takes() -> None:
    revisions = [
        {"hash": "aaaa0001", "template": {"limits": {"maxSequenceLength": 4096}}},
        {"hash": "bbbb0001", "template": {"limits": {"maxSequenceLength": 2048}}},
        {"hash": "cccc0001", "template": {"limits": {}}},
        {"hash": "dddd0001", "template": {"limits": {"maxSequenceLength": 512}}},
    ]

    def longest(*routed: str) -> int | None:
        arms = [
            {"role": "stable", "revision": revision, "kind": "diffusion", "service": "s", "percent": 0}
            for revision in routed
        ]
        return read_model(resource(status={"routes": {"arms": arms}, "revisions": revisions})).max_sequence_length

    assert longest("aaaa0001", "bbbb0001", "cccc0001") == 2048
    assert longest("cccc0001") is None
    assert longest() is None


def test_a_timeout_that_cannot_be_read_becomes_the_default() -> None:
    assert read_model(resource(spec={"limits": {"requestTimeout": "soon"}})).wait_seconds == DEFAULT_WAIT_SECONDS


def test_fields_of_a_newer_operator_are_passed_over() -> None:
    newer = resource(
        spec={"routing": {"moonPhase": "full"}, "newSection": {}},
        status={"routes": {"generation": 4, "epoch": 9, "arms": [ARM | {"shadow": True}]}, "newStatus": []},
    )
    seen = read_model(newer)
    assert (seen.generation, [arm.revision for arm in seen.arms]) == (4, ["aaaa0001"])


def test_an_arm_of_an_unknown_role_is_left_out_and_the_others_stay() -> None:
    arms = [ARM, ARM | {"role": "shadow", "percent": 0}]
    seen = read_model(resource(status={"routes": {"generation": 1, "arms": arms}}))
    assert [arm.role for arm in seen.arms] == ["stable"]


@pytest.mark.parametrize("broken", [{}, {"metadata": {}}, {"metadata": {"name": "x"}}, resource(status={"routes": 5})])
def test_what_is_no_resource_is_left_out(broken: dict[str, Any]) -> None:
    assert read_model(broken) is None


def test_only_ready_endpoints_count_and_unknown_readiness_is_ready() -> None:
    seen = read_slice(
        endpoints(
            {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False, "serving": True, "terminating": True}},
            {"addresses": ["10.0.0.3"], "conditions": {}},
            {"addresses": ["10.0.0.4"]},
        )
    )
    assert seen.service == ServiceKey("default", "s")
    assert seen.ready == {"10.0.0.1", "10.0.0.3", "10.0.0.4"}


def test_a_service_without_pods_has_null_endpoints() -> None:
    assert read_slice(endpoints(endpoints=None)).ready == frozenset()


def test_slices_of_no_service_or_without_ip_addresses_are_left_out() -> None:
    assert read_slice(endpoints(addressType="FQDN")) is None
    assert read_slice(endpoints(metadata={"name": "s", "namespace": "default"})) is None
    assert read_slice({"metadata": {}}) is None


def test_slices_of_one_service_add_up() -> None:
    slices = [read_slice(endpoints({"addresses": [f"10.0.0.{n}"]})) for n in (1, 2)]
    assert build_table([], slices).pods == {ServiceKey("default", "s"): frozenset({"10.0.0.1", "10.0.0.2"})}
