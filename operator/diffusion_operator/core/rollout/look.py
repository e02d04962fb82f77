"""What one look tells of a revision: its verdicts, whether time counts, and how much of it."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api.rollout import EventCounts, PairSums, Watched
from diffusion_operator.core.gates import Crashes, Evidence, Quality, Speed, Verdict, judge
from diffusion_operator.core.verdict import Moments, Outcome, Proportion, Unreadable

from . import acts
from .observation import Observation, Reading, Run
from .observed_time import account
from .policy import Intent, Pace

_NOT_READ = Unreadable("the metrics of this step could not be read")


@dataclass(frozen=True, slots=True)
class Look:
    """A revision as it is now.

    `down` are the arms that have no ready pod. `is_break`: observed time came to a stop, which must be written down.
    `is_new`: the step was not read before, so there is nothing to judge; `starts_at` is when it began, None while gateways do
    not have its weight in force. A begin is written with what the first reading showed. `is_measured` is false when metrics were not
    asked for this pass: there are no verdicts but that on crashes, and time stands where it stood.
    """

    watched: Watched
    verdicts: tuple[Verdict, ...]
    down: tuple[str, ...]
    reading: Reading | None
    run: Run | None
    is_break: bool
    is_observing: bool
    is_new: bool = False
    starts_at: datetime | None = None
    is_measured: bool = True

    def of(self, outcome: Outcome) -> tuple[Verdict, ...]:
        """Verdicts with this outcome."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is outcome)

    @property
    def passes(self) -> bool:
        """Whether every gate passes, on data of this very step."""
        return self.reading is not None and len(self.of(Outcome.PASS)) == len(self.verdicts)

    def with_evidence(self) -> Watched:
        """The revision, with the quality of this step added to what it takes along."""
        if self.reading is None:
            return self.watched
        pairs, answers = self.reading.quality.pairs, self.reading.quality.repetition
        none, no_answers = PairSums(), EventCounts()
        return acts.add_earlier(
            self.watched,
            pairs=PairSums(count=pairs.count, total=pairs.total, total_squares=pairs.total_squares)
            if isinstance(pairs, Moments) and not pairs.fault()
            else none,
            repetition=EventCounts(count=answers.count, events=answers.events)
            if isinstance(answers, Proportion) and not answers.fault()
            else no_answers,
        )


def look(
    watched: Watched,
    intent: Intent,
    observation: Observation,
    *,
    arms: Collection[str],
    now: datetime,
    pace: Pace,
) -> Look:
    """Judge a revision and account for its time. `arms` are the revisions whose pods must be there for time to count."""
    watched = acts.compared_with(watched, intent.ar)
    down = tuple(sorted(arm for arm in arms if observation.ready.get(arm, 0) < 1))
    run = observation.runs.get(watched.revision)
    crashes = observation.crashes.get(watched.revision, Crashes())
    only_crashes = judge({}, Evidence(crashes=crashes))
    if watched.started_at is None:
        # One that is ahead of the clock was written by a clock that was set back since.
        starts_at = min(observation.starts.get(watched.revision, now), now) if observation.in_force else None
        reading = observation.readings.get(watched.revision) if observation.is_measured else None
        if starts_at is None or reading is None or reading.window.since != starts_at:
            return Look(
                watched,
                only_crashes,
                down,
                reading=None,
                run=None,
                is_break=False,
                is_observing=False,
                is_new=True,
                starts_at=starts_at,
            )
        watched = watched.model_copy(update={"started_at": starts_at, "accounted_at": starts_at})
    if watched.started_at and watched.started_at > now:
        # The clock was set back behind the step's begin, and no window can begin in the future: what was counted stays.
        accounted = account(watched, run, is_observing=False, now=now, pace=pace)
        return Look(
            accounted.watched,
            only_crashes,
            down,
            reading=None,
            run=None,
            is_break=True,
            is_observing=False,
            is_measured=False,
        )
    if not observation.is_measured:
        return Look(
            watched, only_crashes, down, reading=None, run=run, is_break=False, is_observing=False, is_measured=False
        )

    reading = observation.readings.get(watched.revision)
    if reading and reading.window.since != watched.started_at:
        reading = None  # of a step that is over
    verdicts = judge(intent.policy.gates, _evidence(watched, reading, crashes))
    has_errors = any(verdict.outcome is Outcome.ERROR for verdict in verdicts)
    is_observing = observation.in_force and not down and reading is not None and not has_errors
    accounted = account(watched, run, is_observing=is_observing, now=now, pace=pace)
    return Look(
        accounted.watched,
        verdicts,
        down,
        reading=reading,
        run=accounted.run,
        is_break=accounted.is_break,
        is_observing=is_observing,
    )


def _evidence(watched: Watched, reading: Reading | None, crashes: Crashes) -> Evidence:
    pairs, answers = watched.earlier_pairs, watched.earlier_repetition
    nothing = Speed(first_token=_NOT_READ, latency=_NOT_READ, errors=_NOT_READ)
    return Evidence(
        earlier=Quality(
            pairs=Moments(pairs.count, pairs.total, pairs.total_squares),
            repetition=Proportion(answers.count, answers.events),
        ),
        quality=reading.quality if reading else Quality(pairs=_NOT_READ, repetition=_NOT_READ),
        speed=reading.speed if reading else nothing,
        guard=reading.guard if reading else nothing,
        crashes=crashes,
        run=watched.run,
        step=watched.step,
        window=reading.window.guard_index if reading else 0,
    )
