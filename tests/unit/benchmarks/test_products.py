"""The matrix products of a pass."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine.products import Geometry, Layer, Product

SLIDING = Layer(heads=4, kv_heads=2, head_width=8, has_values=True, window=16)
FULL = Layer(heads=4, kv_heads=1, head_width=16, has_values=False, window=None)
GEOMETRY = Geometry(
    width=32,
    feed_forward=64,
    experts=4,
    experts_per_token=2,
    expert_width=16,
    vocabulary=100,
    canvas=8,
    layers=(SLIDING, FULL),
)


def operations(products: list[Product]) -> int:
    return sum(product.operations for product in products)


def test_a_product_counts_multiplications_and_additions() -> None:
    assert Product(m=2, k=3, n=5, batch=7, count=11).operations == 2 * 2 * 3 * 5 * 7 * 11


def test_what_is_timed_is_a_product_once() -> None:
    assert Product(m=2, k=3, n=5, count=11).shape == Product(m=2, k=3, n=5)


def test_the_products_with_weights_are_the_weights_once_per_token() -> None:
    feed_forward = 3 * 32 * 64
    experts = 2 * 3 * 32 * 16  # two of four for each token
    sliding = 32 * (4 + 2 + 2) * 8 + 4 * 8 * 32
    full = 32 * (4 + 1) * 16 + 4 * 16 * 32
    weights = sliding + full + 2 * (feed_forward + 32 * 4 + experts) + feed_forward + 2 * 32 * 100
    products = [product for product in GEOMETRY.denoise(rows=3, cached=10) if product.batch == 1]
    assert operations(products) == 2 * weights * 3 * 8


def test_attention_sees_the_window_and_itself() -> None:
    scores = [product for product in GEOMETRY.denoise(rows=3, cached=100) if product.batch > 1]
    assert [(product.n, product.k) for product in scores] == [(15 + 8, 8), (8, 15 + 8), (108, 16), (16, 108)]
    assert {product.batch for product in scores} == {3 * 4}


def test_a_first_step_is_not_conditioned_and_a_last_one_conditions_nothing() -> None:
    step, first, last = (
        operations(GEOMETRY.denoise(rows=1, cached=10, **which))
        for which in ({}, {"is_first": True}, {"is_last": True})
    )
    assert step - first == 2 * 8 * 3 * 32 * 64
    assert step - last == 2 * 8 * 100 * 32


def test_encoding_wants_only_keys_and_values_of_the_last_layer() -> None:
    one = replace(GEOMETRY, layers=(FULL,))
    assert one.encode(rows=3, new=8, cached=0) == [Product(m=24, k=32, n=16)]


def test_an_encoded_token_sees_half_of_the_new_ones() -> None:
    scores = [product for product in GEOMETRY.encode(rows=1, new=8, cached=5) if product.batch > 1]
    assert [(product.n, product.k) for product in scores] == [(5 + 4, 8), (8, 5 + 4)]


def test_encoding_needs_no_vocabulary() -> None:
    assert all(100 not in (product.n, product.k) for product in GEOMETRY.encode(rows=1, new=8, cached=0))


@given(rows=st.integers(1, 8), cached=st.integers(0, 64))
def test_work_is_proportional_to_rows(rows: int, cached: int) -> None:
    assert operations(GEOMETRY.denoise(rows=rows, cached=cached)) == rows * operations(
        GEOMETRY.denoise(rows=1, cached=cached)
    )


def test_the_geometry_is_that_of_the_configuration(tmp_path: Path) -> None:
    text = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 16,
        "vocab_size": 100,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "global_head_dim": 16,
        "num_global_key_value_heads": 1,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    (tmp_path / "config.json").write_text(json.dumps({"canvas_length": 8, "text_config": text}))
    assert Geometry.read(tmp_path) == GEOMETRY


def test_a_configuration_that_lacks_a_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"canvas_length": 8, "text_config": {}}))
    with pytest.raises(KeyError, match="hidden_size"):
        Geometry.read(tmp_path)
