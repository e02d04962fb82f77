"""What the gateway measures, and for how long it remembers it."""

from diffusion_gateway.metrics import Metrics, arm_labels
from diffusion_gateway.routes import Model, Table
from diffusion_gateway.reasons import Reason
from diffusion_operator.api.status import ArmKind, ArmRole, RouteArm

DAY = 24 * 3600.0


def an_arm(revision: str) -> RouteArm:
    return RouteArm(
        role=ArmRole.STABLE, revision=revision, kind=ArmKind.DIFFUSION, service=f"story-{revision}", percent=100
    )


def a_model(*revisions: str, name: str = "story") -> Model:
    return Model(namespace="default", name=name, generation=1, arms=tuple(map(an_arm, revisions)))


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
        metrics.ruled.labels(model.namespace, model.name, "short_output").inc()
        metrics.requests.labels(*arm_labels(model, None), "400").inc()
        for arm in model.arms:
            labels = arm_labels(model, arm)
            metrics.requests.labels(*labels, "200").inc()
            metrics.count_failure(model, arm, Reason.TIMEOUT)
            metrics.count_fallback(model, arm, Reason.TIMEOUT)
            metrics.first_token_seconds.labels(*labels).observe(1)
            metrics.duration_seconds.labels(*labels).observe(1)
            metrics.output_tokens.labels(*labels).inc()
            metrics.prompt_tokens.labels(*labels).inc()

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
