"""How much an answer repeats itself, from its token ids alone. Pure Python: engine, gateway and offline tools share it."""

from .repetition import DEFAULT_WINDOW, degeneration

__all__ = ["DEFAULT_WINDOW", "degeneration"]
