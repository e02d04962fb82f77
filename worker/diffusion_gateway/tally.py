"""What was seen of one row: numbers only, no text."""

from dataclasses import dataclass, field

from diffusion_worker.wire import BlockEvent, FinishEvent


@dataclass
class Tally:
    """Filled while a row speaks. Times are on the pool's clock."""

    first_text_at: float | None = None
    """When somebody here read the first text."""
    ended_at: float | None = None
    """When the last event arrived here, whoever reads it when."""
    held_up: bool = False
    """Whoever reads here was so slow that the pod had to wait: the time says nothing about the arm."""
    canvas_steps: list[int] = field(default_factory=list)
    """Of each block; an AR arm's have one step per token."""
    capped: int = 0
    """Blocks that hit the cap of steps before they were stable."""
    finish: FinishEvent | None = None

    def add(self, event: BlockEvent | FinishEvent, *, now: float) -> None:
        """Count an event that is read now."""
        match event:
            case BlockEvent():
                self.canvas_steps.append(event.steps)
                self.capped += not event.converged
                if self.first_text_at is None and event.text:
                    self.first_text_at = now
            case FinishEvent():
                self.finish = event

    def seconds_since(self, asked_at: float) -> float | None:
        """How long the whole row took. None: it is not complete, or the time says nothing about the arm."""
        if self.finish is None or self.ended_at is None or self.held_up:
            return None
        return self.ended_at - asked_at
