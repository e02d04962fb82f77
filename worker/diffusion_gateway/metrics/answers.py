"""Complete answers of an arm: how long they took, what they cost and how they read."""

from diffusion_operator.api.status import ArmKind, RouteArm

from ..routes import Model
from ..tally import Tally
from .families import Families
from .labels import ARM, LENGTHS, arm_labels, length_range

_TOKEN_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1)
_STEP_BUCKETS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 40, 50, 64, 128, 256)
_QUEUE_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_BY_LENGTH = (*ARM, "length")


class AnswerMetrics:
    """An answer is one choice: a request with n choices has n of them."""

    def __init__(self, families: Families) -> None:
        timed = (
            "from when the arm was asked to when its last event arrived here, by range of output tokens. Those that AR gives "
            "for pairs are among them: at 100 % diffusion hardly anybody else asks it. Answers whose client read so slowly "
            "that the pod had to wait are left out."
        )
        self.answers = families.counter("answers", f"Complete answers whose time is known: {timed}", _BY_LENGTH)
        self.seconds = families.counter("answer_seconds", "Seconds of the same answers.", _BY_LENGTH)
        self.seconds_squared = families.counter(
            "answer_seconds_squared", "The squares of the same seconds, for the spread.", _BY_LENGTH
        )
        self.tokens = families.counter(
            "answer_tokens",
            "Output tokens of the same answers: answer_seconds by them are seconds per token.",
            _BY_LENGTH,
        )
        self.token_seconds = families.histogram(
            "seconds_per_output_token",
            "Seconds of an answer, as above, by its output tokens.",
            ARM,
            buckets=_TOKEN_BUCKETS,
        )
        self.queue_seconds = families.histogram(
            "engine_queue_seconds",
            "Part of an answer's time that it waited in the engine for its first pass.",
            ARM,
            buckets=_QUEUE_BUCKETS,
        )
        self.canvas_steps = families.histogram(
            "steps_per_canvas", "Denoising steps of each canvas. Diffusion arms only.", ARM, buckets=_STEP_BUCKETS
        )
        self.canvases = families.counter(
            "canvases",
            "Canvases by outcome: `converged`, or `capped` at the most steps before they were stable. Diffusion arms only.",
            (*ARM, "outcome"),
        )
        self.checked = families.counter(
            "checked_answers", "Answers that were long enough to look for repetition in them.", ARM
        )
        self.repeating = families.counter(
            "repeating_answers",
            "Those of the checked answers that repeat themselves; docs/quality.md says what that is.",
            ARM,
        )

    def begin(self, model: Model, arm: RouteArm) -> None:
        """Let what an arm is judged by begin at 0."""
        labels = arm_labels(model, arm)
        for family in (self.checked, self.repeating):
            family.labels(*labels)
        for family in (self.answers, self.seconds, self.seconds_squared, self.tokens):
            for length in LENGTHS:
                family.labels(*labels, length)

    def count(self, model: Model, arm: RouteArm, tally: Tally, *, asked_at: float) -> None:
        """Count a complete answer, also one that is not good enough to be sent. `asked_at` is on the tally's clock."""
        finish = tally.finish
        if finish is None:
            return
        labels = arm_labels(model, arm)
        self.queue_seconds.labels(*labels).observe(finish.queue_seconds)
        if finish.degeneration is not None:
            self.checked.labels(*labels).inc()
            self.repeating.labels(*labels).inc(finish.degeneration.repeats)
        self.count_time(model, arm, tally, asked_at=asked_at)
        if arm.kind == ArmKind.DIFFUSION:
            self._count_canvases(labels, tally)

    def count_time(self, model: Model, arm: RouteArm, tally: Tally, *, asked_at: float) -> None:
        """Count how long an answer took and nothing else of it, as of AR's in a pair, which no client asked for."""
        finish, seconds = tally.finish, tally.seconds_since(asked_at)
        if finish is None or seconds is None:
            return
        labels, tokens = arm_labels(model, arm), finish.completion_tokens
        by_length = (*labels, length_range(tokens))
        self.answers.labels(*by_length).inc()
        self.seconds.labels(*by_length).inc(seconds)
        self.seconds_squared.labels(*by_length).inc(seconds**2)
        self.tokens.labels(*by_length).inc(tokens)
        if tokens:
            self.token_seconds.labels(*labels).observe(seconds / tokens)

    def _count_canvases(self, labels: tuple[str, ...], tally: Tally) -> None:
        canvas_steps = self.canvas_steps.labels(*labels)
        for steps in tally.canvas_steps:
            canvas_steps.observe(steps)
        self.canvases.labels(*labels, "capped").inc(tally.capped)
        self.canvases.labels(*labels, "converged").inc(len(tally.canvas_steps) - tally.capped)
