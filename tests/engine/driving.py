"""Drives a runner step by step, as the loop does, so that a test decides what shares a step with what."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from diffusion_worker.engine.admission import admit_request
from diffusion_worker.engine.observer import Pass
from diffusion_worker.engine.row import Row
from diffusion_worker.engine.runner import Commit, Runner
from diffusion_worker.wire import GenerateRequest


@dataclass
class Drive:
    """A run of requests, whose answers are kept as tokens."""

    runner: Runner
    rows: list[Row] = field(default_factory=list)
    commits: dict[str, list[Commit]] = field(default_factory=dict)  # by request id
    passes: list[list[Pass]] = field(default_factory=list)  # by step

    def admit(self, request: GenerateRequest) -> Row:
        """Give a request a slot."""
        row = admit_request(request, runner=self.runner, emit=lambda event: None)
        self.runner.admit(row)
        self.rows.append(row)
        self.commits[request.request_id] = []
        return row

    def step(self) -> None:
        """One step of all rows; those whose answers are complete leave."""
        result = self.runner.step(self.rows)
        assert not result.non_finite
        self.passes.append(result.passes)
        for commit in result.commits:
            row = commit.row
            self.commits[row.request_id].append(commit)
            row.blocks += 1
            if row.output.push(commit.token_ids).finish is not None:
                self.drop(row)

    def drop(self, row: Row) -> None:
        """End a row, as when it is cancelled."""
        self.runner.release(row)
        self.rows.remove(row)

    def tokens(self, request_id: str) -> list[int]:
        """Everything that was committed for a request, its last canvas to the end."""
        return [token_id for commit in self.commits[request_id] for token_id in commit.token_ids]


def tokens_of(runner: Runner, requests: Sequence[GenerateRequest], arrivals: Sequence[int] = ()) -> list[list[int]]:
    """Tokens of requests that arrive in this order, each not before step `arrivals[i]` and not before there is room."""
    drive = Drive(runner)
    waiting = [(each, at) for each, at in zip(requests, arrivals or [0] * len(requests), strict=True)]
    step = 0
    while waiting or drive.rows:
        while waiting and waiting[0][1] <= step and len(drive.rows) < runner.max_batch_size:
            drive.admit(waiting.pop(0)[0])
        if drive.rows:
            drive.step()
        step += 1
    return [drive.tokens(each.request_id) for each in requests]
