"""Where things lie that git does not hold."""

from benchmarks.machine import REPOSITORY

BENCH = REPOSITORY / ".bench"
VLLM_ENVIRONMENT = BENCH / "vllm"
OPENMP = VLLM_ENVIRONMENT / "lib" / "libiomp5.so"
SAME_WORK_CHECKPOINT = BENCH / "checkpoints" / "same-work"
EMPTY_CHECKPOINT = BENCH / "checkpoints" / "empty"
STORYTELLER = REPOSITORY / "examples" / "checkpoints" / "storyteller"
STORYTELLER_AR = STORYTELLER.with_name("storyteller-ar")
LOGS = BENCH / "logs"
RUN = BENCH / "run"  # PID files and scratch folders of running competitors
ROUNDS = BENCH / "rounds"  # measured rounds, so that an interrupted benchmark goes on where it was
