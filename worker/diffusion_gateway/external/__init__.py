"""AR servers that are not ours: any that speaks OpenAI's API, seen by the rest of the gateway as a pod.

`endpoints` knows all of them and looks after them with `probe`; `server` sends requests (`bodies`) and makes events of what comes back
(`stream`, `sse`, `chunks`, `failures`); `scoring` makes likelihoods of texts out of log-probabilities of prompts; `secrets` has the keys.
"""

from .endpoints import Endpoints

__all__ = ["Endpoints"]
