"""What the gateway measures, and for how long it remembers it."""

import pytest
from diffusion_gateway.metrics import Metrics, arm_labels
from diffusion_gateway.metrics.labels import length_range
from diffusion_gateway.reasons import Reason
from diffusion_gateway.routes import Model, Table
from diffusion_gateway.tally import Tally
from diffusion_operator.api.status import ArmKind, ArmRole, RouteArm
from diffusion_worker.wire import BlockEvent, Degeneration, FinishEvent

DAY = 24 * 3600.0


def an_arm(revision: str) -> RouteArm:
    return RouteArm(
        role=ArmRole.STABLE, revision=revision, kind=ArmKind.DIFFUSION, service=f"story-{revision}", percent=100
    )


def a_model(*revisions: str, name: str = "story") -> Model:
    return Model(namespace="default", name=name, generation=1, arms=tuple(map(an_arm, revisions)))


def a_tally(
    *, tokens: int = 40, ended_at: float = 2.0, degeneration: Degeneration | None = None, held_up: bool = False
) -> Tally:
    """A complete answer of two canvases, one of which hit the cap."""
    tally = Tally()
    for index, converged in enumerate((True, False)):
        tally.add(BlockEvent(index=index, text="x", tokens=20, steps=10 + index, converged=converged), now=1.0)
    finish = FinishEvent(
        reason="stop",
        prompt_tokens=7,
        completion_tokens=tokens,
        steps=21,
        blocks=2,
        seed=1,
        queue_seconds=0.25,
        degeneration=degeneration,
    )
    tally.add(finish, now=2.0)
    tally.ended_at, tally.held_up = ended_at, held_up
    return tally


class Watched:
    """Metrics in simulated time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics(clock=lambda: self.now)

    def show(self, *models: Model) -> None:
        self.metrics.show_table(Table(models={model.key: model for model in models}))

    def count_all(self, model: Model) -> None:
        """One of everything that is counted, on every arm."""
        metrics = self.metrics
        metrics.requests.count_ruled(model, "short_output")
        metrics.requests.requests.labels(*arm_labels(model, None), "400").inc()
        for arm in model.arms:
            labels = arm_labels(model, arm)
            metrics.requests.requests.labels(*labels, "200").inc()
            metrics.requests.duration_seconds.labels(*labels).observe(1)
            metrics.requests.output_tokens.labels(*labels).inc()
            metrics.requests.prompt_tokens.labels(*labels).inc()
            metrics.arms.count_failure(model, arm, Reason.TIMEOUT)
            metrics.arms.count_fallback(model, arm, Reason.TIMEOUT)
            metrics.answers.count(model, arm, a_tally(), asked_at=0)
            metrics.pairs.pairs.labels(model.namespace, model.name, arm.revision, "ffff0001").inc()
            metrics.pairs.pairs.labels(model.namespace, model.name, "ffff0001", arm.revision).inc()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"diffusion_gateway_{name}", labels)

    def labelled(self, **labels: str) -> int:
        """How many series have these labels."""
        samples = [sample for family in self.metrics.registry.collect() for sample in family.samples]
        return sum(labels.items() <= sample.labels.items() for sample in samples)


def test_a_revision_that_left_the_table_long_ago_has_no_series() -> None:
    watched = Watched()
    watched.show(a_model("aaaa0001"))
    watched.count_all(a_model("aaaa0001"))
    watched.show(a_model("aaaa0002"))
    watched.count_all(a_model("aaaa0002"))
    watched.now = DAY
    watched.show(a_model("aaaa0002"))
    assert watched.labelled(revision="aaaa0001") == 0
    assert watched.labelled(revision="aaaa0002") > 0
    assert watched.labelled(rule="short_output") > 0


def test_a_revision_that_left_just_now_can_still_be_scraped() -> None:
    watched = Watched()
    watched.show(a_model("aaaa0001"))
    watched.count_all(a_model("aaaa0001"))
    watched.show(a_model("aaaa0002"))
    watched.now = 600.0
    watched.show(a_model("aaaa0002"))
    assert watched.labelled(revision="aaaa0001") > 0


def test_a_revision_that_came_back_is_not_forgotten() -> None:
    watched = Watched()
    watched.show(a_model("aaaa0001"))
    watched.count_all(a_model("aaaa0001"))
    watched.show(a_model("aaaa0002"))
    watched.show(a_model("aaaa0001"))
    watched.now = DAY
    watched.show(a_model("aaaa0001"))
    assert watched.labelled(revision="aaaa0001", code="200") > 0


def test_models_that_come_and_go_leave_nothing_behind() -> None:
    watched = Watched()
    watched.show(a_model("aaaa0001"))
    before = watched.labelled()
    for number in range(20):
        other = a_model("bbbb0001", name=f"preview-{number}")
        watched.show(a_model("aaaa0001"), other)
        watched.count_all(other)
    watched.show(a_model("aaaa0001"))
    watched.now = DAY
    watched.show(a_model("aaaa0001"))
    assert watched.labelled() == before


AR = RouteArm(role=ArmRole.FALLBACK, revision="ffff0001", kind=ArmKind.AR, service="story-ffff0001", percent=0)
DIFFUSION = an_arm("aaaa0001")
MODEL = Model(namespace="default", name="story", generation=1, arms=(DIFFUSION, AR))
NAMES = {"model_namespace": "default", "model": "story"}
LABELS = {**NAMES, "arm": "stable", "revision": "aaaa0001", "kind": "diffusion"}
AR_LABELS = {**NAMES, "arm": "fallback", "revision": "ffff0001", "kind": "ar"}


def counted(tally: Tally, *, asked_at: float = 0.5, arm: RouteArm = DIFFUSION) -> Watched:
    watched = Watched()
    watched.metrics.answers.count(MODEL, arm, tally, asked_at=asked_at)
    return watched


@pytest.mark.parametrize(
    "name", ["arm_requests_total", "arm_failed_requests_total", "checked_answers_total", "repeating_answers_total"]
)
@pytest.mark.parametrize("labels", [LABELS, AR_LABELS])
def test_what_an_arm_is_judged_by_begins_at_0(name: str, labels: dict[str, str]) -> None:
    watched = Watched()
    watched.show(MODEL)
    assert watched.value(name, **labels) == 0


@pytest.mark.parametrize("name", ["answers_total", "answer_seconds_total", "answer_seconds_squared_total"])
@pytest.mark.parametrize("length", ["1-32", "33-64", "65-128", "129-256", "257-512", "513-1024", "1025+"])
def test_every_range_of_lengths_begins_at_0(name: str, length: str) -> None:
    watched = Watched()
    watched.show(MODEL)
    assert watched.value(name, **LABELS, length=length) == 0


@pytest.mark.parametrize(
    "name", ["pairs_total", "pair_nll_above_total", "pair_nll_below_total", "pair_nll_squared_total"]
)
def test_pairs_of_a_diffusion_arm_begin_at_0(name: str) -> None:
    watched = Watched()
    watched.show(MODEL)
    assert watched.value(name, **NAMES, revision="aaaa0001", ar_revision="ffff0001") == 0


def test_what_was_counted_is_not_begun_again_by_the_next_table() -> None:
    watched = Watched()
    watched.show(MODEL)
    watched.metrics.arms.count_asked(MODEL, DIFFUSION)
    watched.show(MODEL)
    assert watched.value("arm_requests_total", **LABELS) == 1


def test_a_revision_that_comes_back_after_it_was_forgotten_begins_at_0_again() -> None:
    watched = Watched()
    watched.show(MODEL)
    watched.metrics.arms.count_asked(MODEL, DIFFUSION)
    watched.show(a_model("aaaa0002"))
    watched.now = DAY
    watched.show(a_model("aaaa0002"))
    watched.show(MODEL)
    assert watched.value("arm_requests_total", **LABELS) == 0


def test_a_gateway_that_stops_is_not_a_failure_of_the_arm() -> None:
    watched = Watched()
    watched.metrics.arms.begin(MODEL, DIFFUSION)
    watched.metrics.arms.count_failed(MODEL, DIFFUSION, Reason.GATEWAY_STOPS)
    assert watched.value("arm_failed_requests_total", **LABELS) == 0
    watched.metrics.arms.count_failed(MODEL, DIFFUSION, Reason.TIMEOUT)
    assert watched.value("arm_failed_requests_total", **LABELS) == 1


def test_an_answer_counts_in_its_range_with_seconds_squares_and_tokens() -> None:
    watched = counted(a_tally(tokens=40, ended_at=2.0), asked_at=0.5)
    names = ("answers_total", "answer_seconds_total", "answer_seconds_squared_total", "answer_tokens_total")
    assert [watched.value(name, **LABELS, length="33-64") for name in names] == [1, 1.5, 2.25, 40]
    assert watched.value("seconds_per_output_token_sum", **LABELS) == pytest.approx(1.5 / 40)


@pytest.mark.parametrize(
    ("tokens", "length"),
    [(0, "1-32"), (1, "1-32"), (32, "1-32"), (33, "33-64"), (1024, "513-1024"), (1025, "1025+"), (10**6, "1025+")],
)
def test_ranges_hold_their_upper_bound(tokens: int, length: str) -> None:
    assert length_range(tokens) == length


def test_an_answer_whose_reader_held_the_pod_up_says_nothing_about_the_time_of_the_arm() -> None:
    watched = counted(a_tally(held_up=True))
    assert watched.value("answers_total", **LABELS, length="33-64") is None
    assert watched.value("engine_queue_seconds_count", **LABELS) == 1


def test_a_row_that_did_not_end_is_no_answer() -> None:
    tally = a_tally()
    tally.finish = None
    assert counted(tally).labelled() == Watched().labelled()


def test_canvases_are_counted_by_outcome_and_steps() -> None:
    watched = counted(a_tally())
    assert [watched.value("canvases_total", **LABELS, outcome=each) for each in ("converged", "capped")] == [1, 1]
    assert watched.value("steps_per_canvas_sum", **LABELS) == 21


def test_an_autoregressive_arm_has_no_canvases() -> None:
    watched = counted(a_tally(), arm=AR)
    assert watched.value("answers_total", **AR_LABELS, length="33-64") == 1
    assert watched.value("steps_per_canvas_sum", **AR_LABELS) is None


def test_answers_too_short_to_repeat_are_not_checked() -> None:
    watched = counted(a_tally(degeneration=None))
    assert watched.value("checked_answers_total", **LABELS) is None


@pytest.mark.parametrize("repeats", [True, False])
def test_repeating_answers_are_counted_among_the_checked(repeats: bool) -> None:
    watched = counted(a_tally(degeneration=Degeneration(repetition=0.9, repeats=repeats, distinct_2=0.5)))
    assert watched.value("checked_answers_total", **LABELS) == 1
    assert watched.value("repeating_answers_total", **LABELS) == repeats


def test_open_breakers_are_asked_for_at_each_scrape() -> None:
    watched = Watched()
    opened = 0
    watched.metrics.arms.open_breakers = lambda targets: opened
    watched.show(MODEL)
    assert watched.value("breaker_open", **LABELS) == 0
    opened = 2
    assert watched.value("breaker_open", **LABELS) == 2


def test_a_new_table_touches_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape goes on meanwhile: what is shown must not be gone in between."""
    watched = Watched()
    watched.show(a_model("aaaa0001"), a_model("bbbb0001", name="other"))

    def gone(*_: object) -> None:
        raise AssertionError("a gauge of what is in force was taken away")

    arms = watched.metrics.arms
    for gauge in (arms.routes_generation, arms.ready_pods, arms.breaker_open):
        for name in ("clear", "remove", "labels"):
            monkeypatch.setattr(gauge, name, gone)
    watched.show(a_model("aaaa0001"), a_model("bbbb0001", name="other"))


def test_gauges_of_an_arm_that_left_go_at_once() -> None:
    watched = Watched()
    watched.show(a_model("aaaa0001"))
    watched.show(a_model("aaaa0002"))
    names = ("ready_pods", "breaker_open")
    shown = [
        sample.labels["revision"]
        for family in watched.metrics.registry.collect()
        for sample in family.samples
        if sample.name.endswith(names)
    ]
    assert set(shown) == {"aaaa0002"}
    watched.show()
    assert watched.value("routes_generation", model_namespace="default", model="story") is None
