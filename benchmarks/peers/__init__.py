"""Our engine beside the reference servers: the same weights, the same work, the same cores.

Data flows through the files in this order: `environment` makes vLLM's virtual environment; `contestants` start each competitor as a pinned process (`processes`); `same_work` and `real_load` measure them round by round
(`rounds`) beside a quiet machine; `__main__` writes `benchmarks/results/peers.json`.
"""
