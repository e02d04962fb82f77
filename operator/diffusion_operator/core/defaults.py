"""What an absent field means. The descriptions in `api.spec` name the same values; a test compares them."""

MAX_BATCH_SIZE = 8
BATCH_WINDOW = "50ms"
QUEUE_SIZE = 64
REQUEST_TIMEOUT = "30s"

CPU = "1"
MEMORY = "2Gi"
# A container's own 64Mi is too small for Triton: each in-flight tensor of a python backend lives there.
SHM_SIZE = "256Mi"

REPLICAS = 1
INITIAL_PERCENT = 5
