"""Names that more than one program relies on. Changing one breaks running installations."""

GROUP = "serving.diffusion-operator.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DiffusionModel"
PLURAL = "diffusionmodels"

FIELD_MANAGER = "diffusion-operator"

MANAGED_BY = "app.kubernetes.io/managed-by"
APP_NAME = "app.kubernetes.io/name"
MODEL = f"{GROUP}/model"
REVISION = f"{GROUP}/revision"
ARM_KIND = f"{GROUP}/kind"
# On the Job that reads a checkpoint's headers, and on its pod.
INSPECTION = f"{GROUP}/inspection"

MANAGED_BY_VALUE = "diffusion-operator"
APP_NAME_VALUE = "diffusion-worker"
INSPECTION_APP_NAME = "diffusion-inspect"

# Label of nodes: MiB of one GPU. NVIDIA's GPU feature discovery sets it.
GPU_MEMORY = "nvidia.com/gpu.memory"

# Annotation on children: hash of the manifest that was applied last. Tells "we want something else now" from "someone
# else changed it".
APPLIED_HASH = f"{GROUP}/applied-hash"

# Annotation on pods: hash of the files they were started with.
CONFIG_HASH = f"{GROUP}/config-hash"

# Annotation on a DiffusionModel: what a person asks of its rollout once, as VERB or VERB:anything.
ROLLOUT_COMMAND = f"{GROUP}/rollout"

HTTP_PORT = 8000
GRPC_PORT = 8001
METRICS_PORT = 8002
GATEWAY_ADMIN_PORT = 8081
