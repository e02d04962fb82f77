"""What an absent field means. The descriptions in `api.spec` name the same values; a test compares them."""

MAX_BATCH_SIZE = 8
# The most that limits.maxBatchSize takes, and what auto may come to.
MOST_ROWS = 64
BATCH_WINDOW = "50ms"
QUEUE_SIZE = 64
REQUEST_TIMEOUT = "30s"

CPU = "1"
MEMORY = "2Gi"
MEMORY_UTILIZATION = 0.9
# A container's own 64Mi is too small for Triton: each in-flight tensor of a python backend lives there.
SHM_SIZE = "256Mi"

REPLICAS = 1
INITIAL_PERCENT = 5

# What the engine takes for mask-token models, whose config.json has no canvas (engine/mask_diffusion.py).
MASK_CANVAS_LENGTH = 32

REPETITION_WINDOW = 32
