"""The gates that a revision must hold: what each looks at, and what it says."""

from diffusion_operator.api.rollout import GateName

from .evidence import Crashes, Evidence, Quality, Speed
from .judge import Verdict, judge
from .limits import GateLimit, GateLimits

__all__ = ["Crashes", "Evidence", "GateLimit", "GateLimits", "GateName", "Quality", "Speed", "Verdict", "judge"]
