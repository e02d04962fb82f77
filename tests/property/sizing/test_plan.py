"""What holds for every model and every budget."""

from dataclasses import replace
from typing import Any

from diffusion_operator.core.sizing import (
    MOST_ROWS,
    Arm,
    Asked,
    Budget,
    Device,
    Dtype,
    EngineCosts,
    Plan,
    Workload,
    engine_costs,
    footprint,
    plan,
)
from diffusion_worker.inspect.facts import (
    Experts,
    Family,
    LayerGroup,
    LayerKind,
    ModelFacts,
    WeightGroup,
    WeightPart,
)
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1024**3
# A plan takes a millisecond of a core; how long that is by the clock depends on who else wants the core.
in_any_time = settings(deadline=None)
HEADS = st.sampled_from([(8, 8), (8, 2), (16, 4), (16, 1), (32, 32)])


@st.composite
def layer_groups(draw: st.DrawFn) -> LayerGroup:
    heads, kv_heads = draw(HEADS)
    layers = draw(st.integers(1, 40))
    window = draw(st.none() | st.integers(1, 4096))
    return LayerGroup(
        kind=LayerKind.FULL if window is None else LayerKind.SLIDING,
        layers=layers,
        window=window,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([64, 128, 256, 512])),
        kv_layers=draw(st.integers(1, layers)),
    )


@st.composite
def models(draw: st.DrawFn) -> ModelFacts:
    parts = draw(st.lists(st.sampled_from(WeightPart), min_size=1, unique=True))
    experts = draw(st.none() | st.integers(1, 128))
    return ModelFacts(
        model_type="any",
        family=Family.BLOCK_DIFFUSION,
        dtype="bfloat16",
        weights=tuple(
            WeightGroup(part=part, dtype="BF16", parameters=size, stored_bytes=2 * size)
            for part, size in ((part, draw(st.integers(1, 30_000_000_000))) for part in parts)
        ),
        layers=tuple(draw(st.lists(layer_groups(), min_size=1, max_size=3))),
        hidden_size=draw(st.integers(64, 8192)),
        intermediate_size=draw(st.integers(64, 32_768)),
        vocab_size=draw(st.integers(100, 300_000)),
        max_positions=262_144,
        tied_embeddings=draw(st.booleans()),
        canvas_length=256,
        self_conditioning=draw(st.booleans()),
        experts=experts and Experts(total=128, active=experts, intermediate_size=draw(st.integers(16, 4096))),
    )


workloads = st.builds(
    Workload,
    rows=st.integers(1, MOST_ROWS),
    tokens=st.integers(16, 262_144),
    canvas=st.integers(1, 1024),
    guidance=st.booleans(),
    dtype=st.sampled_from(Dtype),
    gpus=st.sampled_from([1, 2, 4, 8]),
)
engines = st.builds(engine_costs, st.sampled_from(Arm), st.sampled_from(Device))
budgets = st.builds(
    Budget, memory_bytes=st.integers(1, 640 * GIB), utilization=st.integers(1, 100).map(lambda percent: percent / 100)
)
asks = st.builds(
    Asked,
    rows=st.none() | st.integers(1, MOST_ROWS),
    tokens=st.none() | st.integers(16, 262_144),
    canvas=st.none() | st.integers(8, 1024),
    dtype=st.sampled_from(["auto", *Dtype]),
    gpus=st.sampled_from([1, 2, 4, 8]),
    guidance=st.booleans(),
)


def total(facts: ModelFacts, load: Workload, engine: EngineCosts, **changed: Any) -> int:
    return footprint(facts, replace(load, **changed), engine).total


def again(facts: ModelFacts, made: Plan, asked: Asked, budget: Budget) -> Plan:
    wanted = replace(asked, rows=made.rows, tokens=made.tokens, canvas=made.canvas, dtype=made.dtype.value)
    return plan(facts, wanted, budget)


@in_any_time
@given(models(), workloads, engines)
def test_every_kind_of_bytes_is_there_and_none_is_negative(
    facts: ModelFacts, load: Workload, engine: EngineCosts
) -> None:
    made = footprint(facts, load, engine)
    kinds = (made.weights, made.kv, made.logits, made.self_conditioning, made.activations, made.reserve)
    assert all(isinstance(size, int) and size >= 0 for size in kinds)
    assert made.total == sum(kinds)


@in_any_time
@given(models(), workloads, engines, st.integers(1, 64), st.integers(1, 100_000), st.integers(1, 512))
def test_more_of_anything_never_takes_less(
    facts: ModelFacts, load: Workload, engine: EngineCosts, rows: int, tokens: int, canvas: int
) -> None:
    before = total(facts, load, engine)
    assert total(facts, load, engine, rows=load.rows + rows) >= before
    assert total(facts, load, engine, tokens=load.tokens + tokens) >= before
    assert total(facts, load, engine, canvas=load.canvas + canvas) >= before
    assert total(facts, load, engine, guidance=True) >= before
    assert total(facts, load, replace(engine, predict_copies=engine.predict_copies + 1)) >= before
    assert total(facts, load, replace(engine, sliding_layers_drop=False)) >= before


@in_any_time
@given(models(), workloads, engines)
def test_narrower_numbers_never_take_more_for_weights_and_cache(
    facts: ModelFacts, load: Workload, engine: EngineCosts
) -> None:
    # Not in all: the head's product in 16 bits stands beside its float32 copy, which a model of a few weights shows.
    sizes = [footprint(facts, replace(load, dtype=dtype), engine) for dtype in Dtype]
    for kept in ([size.weights for size in sizes], [size.kv for size in sizes]):
        assert kept == sorted(kept, reverse=True)


@in_any_time
@given(models(), workloads, engines)
def test_more_gpus_never_take_more(facts: ModelFacts, load: Workload, engine: EngineCosts) -> None:
    fewest_first = [total(facts, load, engine, gpus=gpus) for gpus in (1, 2, 4, 8)]
    assert fewest_first == sorted(fewest_first, reverse=True)


@in_any_time
@given(models(), asks, budgets)
def test_a_plan_that_fits_is_never_over_budget(facts: ModelFacts, asked: Asked, budget: Budget) -> None:
    made = plan(facts, asked, budget)
    assert made.fits == (made.bytes.total <= budget.bytes)
    assert made.budget_bytes == budget.bytes <= budget.memory_bytes
    assert all(other.total_bytes <= budget.bytes for other in made.alternatives)


@in_any_time
@given(models(), asks, budgets)
def test_what_is_given_is_never_changed(facts: ModelFacts, asked: Asked, budget: Budget) -> None:
    made = plan(facts, asked, budget)
    assert asked.rows in (None, made.rows)
    assert made.tokens == (asked.tokens or facts.max_positions)
    assert made.canvas == (asked.canvas or facts.canvas_length)
    assert asked.dtype in ("auto", made.dtype)
    assert made.gpus == asked.gpus


@in_any_time
@given(models(), asks, budgets)
def test_the_plan_of_a_plan_is_itself(facts: ModelFacts, asked: Asked, budget: Budget) -> None:
    made = plan(facts, asked, budget)
    assert again(facts, made, asked, budget) == made


@in_any_time
@given(models(), asks, budgets, st.integers(0, 64 * GIB))
def test_more_memory_never_allows_fewer_rows(facts: ModelFacts, asked: Asked, budget: Budget, more: int) -> None:
    less = plan(facts, asked, budget)
    larger = plan(facts, asked, replace(budget, memory_bytes=budget.memory_bytes + more))
    assert larger.fits >= less.fits
    assert larger.rows >= less.rows


@in_any_time
@given(models(), asks, budgets)
def test_auto_leaves_no_room_for_another_row(facts: ModelFacts, asked: Asked, budget: Budget) -> None:
    made = plan(facts, replace(asked, rows=None), budget)
    if made.fits and made.rows < MOST_ROWS:
        assert not plan(facts, replace(asked, rows=made.rows + 1), budget).fits


@in_any_time
@given(models(), asks, budgets)
def test_every_alternative_is_a_plan_that_fits_and_changes_what_it_says(
    facts: ModelFacts, asked: Asked, budget: Budget
) -> None:
    made = plan(facts, asked, budget)
    for other in made.alternatives:
        wanted = replace(
            asked,
            rows=other.rows,
            tokens=other.tokens,
            canvas=made.canvas,
            dtype=other.dtype.value,
            gpus=other.gpus,
        )
        assert plan(facts, wanted, budget).fits
        changed = {
            "rows": other.rows != made.rows,
            "tokens": other.tokens != made.tokens,
            "dtype": other.dtype != made.dtype,
            "gpus": other.gpus != made.gpus,
        }
        assert {name for name, differs in changed.items() if differs} == {
            "fewer rows": {"rows"},
            "shorter": {"tokens"},
            "fewer rows and shorter": {"rows", "tokens"},
            "other dtype": {"dtype"},
            "more GPUs": {"gpus"},
        }[other.change]


@in_any_time
@given(st.integers(1, 10**15), st.integers(1, 100))
def test_a_budget_in_bytes_is_rounded_down(memory_bytes: int, percent: int) -> None:
    assert Budget(memory_bytes=memory_bytes, utilization=percent / 100).bytes == memory_bytes * percent // 100


@in_any_time
@given(models(), workloads, engines, st.integers(2, 5))
def test_keys_and_values_and_logits_grow_in_proportion_to_rows(
    facts: ModelFacts, load: Workload, engine: EngineCosts, times: int
) -> None:
    one = footprint(facts, replace(load, rows=1, scores=False), engine)
    many = footprint(facts, replace(load, rows=times, scores=False), engine)
    assert (many.kv, many.self_conditioning) == (times * one.kv, times * one.self_conditioning)
    assert many.weights == one.weights
    assert many.logits <= times * one.logits  # a nucleus is made for one row at a time
