"""The engine: requests in, committed blocks out, one thread per model.

Data flows through the files in this order: `admission` turns a request into a `row`; the `loop` gives it a place in the
`batch` (`background` rows only while nobody else wants it), which asks a runner (`diffusion`, `mask_diffusion` or `ar`,
on a common `base`) for a step; what a step commits becomes text in `output` (`stops`, `detokenizer`). `scores` run
beside all that, within their `share` of the time.
"""

from diffusion_worker.engine.load import load_engine
from diffusion_worker.engine.loop import Engine, EngineStats, Handle
from diffusion_worker.engine.observer import NullObserver, Observer, Pass, PassKind, RowOutcome
from diffusion_worker.engine.row import Emit

__all__ = [
    "Emit",
    "Engine",
    "EngineStats",
    "Handle",
    "NullObserver",
    "Observer",
    "Pass",
    "PassKind",
    "RowOutcome",
    "load_engine",
]
