"""Where things lie that git does not hold."""

from benchmarks.machine import REPOSITORY

BENCH = REPOSITORY / ".bench"
VLLM_ENVIRONMENT = BENCH / "vllm"
OPENMP = VLLM_ENVIRONMENT / "lib" / "libiomp5.so"
SAME_WORK_CHECKPOINT = BENCH / "checkpoints" / "same-work"
STORYTELLER = REPOSITORY / "examples" / "checkpoints" / "storyteller"
LOGS = BENCH / "logs"
RUN = BENCH / "run"  # PID files and scratch folders of running competitors
ROUNDS = BENCH / "rounds"  # measured rounds, so that an interrupted benchmark goes on where it was
