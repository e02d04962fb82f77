"""Operator and gateway agree on what the gates are read from."""

from diffusion_gateway.metrics import Metrics
from diffusion_gateway.metrics.labels import ARM, LENGTHS, PAIR
from diffusion_operator.adapters.prometheus import evidence
from diffusion_operator.adapters.prometheus.families import OF_A_PAIR, OF_BOTH_ARMS, Family


def test_the_gateway_has_every_metric_that_the_operator_reads():
    suffix = {"counter": "_total", "histogram": "_bucket"}
    made = {f"{family.name}{suffix.get(family.type, '')}" for family in Metrics().registry.collect()}
    assert set(Family) <= made


def test_both_cut_output_tokens_into_the_same_ranges():
    assert evidence.LENGTHS == LENGTHS


def test_the_labels_that_the_operator_selects_by_are_the_gateways():
    assert {"model_namespace", "model", "revision", "arm", "kind"} == set(ARM)
    assert {"model_namespace", "model", "revision", "ar_revision"} == set(PAIR)
    assert not OF_A_PAIR & OF_BOTH_ARMS
