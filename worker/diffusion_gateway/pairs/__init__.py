"""Quality in pairs: AR answers a share of the diffusion answers' prompts too, and scores both. docs/quality.md says why and how.

sample (which answers, and their text) → compare (AR answers, both are cut alike and scored) → pairs (queue, limits, metrics).
"""

from .ar_side import ArSide, WorkerArSide
from .pairs import Pairs

__all__ = ["ArSide", "Pairs", "WorkerArSide"]
