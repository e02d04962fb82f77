"""Condition types and reasons: what each means and what a person does about it.

`docs/reference/conditions.md` is generated from here.
"""

from dataclasses import dataclass
from enum import StrEnum

from .status import ConditionStatus


class ConditionType(StrEnum):
    """Aspects of a resource's state. All of them are present from the first write of the status."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    FALLBACK_AVAILABLE = "FallbackAvailable"
    SIZED = "Sized"
    METRICS_AVAILABLE = "MetricsAvailable"


TYPE_MEANS = {
    ConditionType.READY: "Requests are answered, by whichever arm. Stays True through a rollout, however long.",
    ConditionType.PROGRESSING: "The operator is on the way to what spec asks for.",
    ConditionType.FALLBACK_AVAILABLE: "The AR model can take over requests.",
    ConditionType.SIZED: "Batch and sequence limits are known to fit the memory.",
    ConditionType.METRICS_AVAILABLE: "What the gates look at can be read. Without it no weight moves by itself.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a condition has its status."""

    name: str
    type: ConditionType
    status: ConditionStatus
    means: str
    remedy: str


_NOTHING = "Nothing."
_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN

SERVING = Reason("Serving", ConditionType.READY, _TRUE, "An arm of the route table has a ready pod.", _NOTHING)
NO_READY_POD = Reason(
    "NoReadyPod",
    ConditionType.READY,
    _FALSE,
    "No arm of the route table has a ready pod: requests are refused.",
    "The message of Progressing names what pods wait for. At the first start that is most often the image or the "
    "checkpoint being "
    "downloaded. Later: `kubectl get pods -l serving.diffusion-operator.dev/model=NAME`, then `kubectl describe` "
    "and `kubectl logs`.",
)
INVALID = Reason(
    "SpecInvalid",
    ConditionType.READY,
    _FALSE,
    "The operator cannot read spec: it was stored under another version of the CRD, or without validation. What "
    "served before goes on.",
    "Correct the field that the message names and apply again. If it is right as it is, CRD and operator are of "
    "different releases: "
    "upgrade the one that is behind.",
)

SETTLED = Reason("Settled", ConditionType.PROGRESSING, _FALSE, "All is as spec asks.", _NOTHING)
REVISION_STARTING = Reason(
    "RevisionStarting",
    ConditionType.PROGRESSING,
    _TRUE,
    "A revision's pods are starting. What served before goes on.",
    "Wait. The message says what the pods wait for.",
)
PODS_NOT_READY = Reason(
    "PodsNotReady",
    ConditionType.PROGRESSING,
    _TRUE,
    "A revision that serves has fewer ready pods than replicas: they are starting, or were lost and are being "
    "replaced.",
    "Wait. If it stays, the message says what the pods wait for.",
)
ARM_DOWN = Reason(
    "ArmDown",
    ConditionType.PROGRESSING,
    _TRUE,
    "An arm has no ready pod now. It keeps its share of the routes; gateways send its requests to the fallback one "
    "by one.",
    "`kubectl get pods -l serving.diffusion-operator.dev/revision=HASH`, then `kubectl describe` and `kubectl "
    "logs`. Pods are "
    "replaced by themselves; a revision that cannot run needs another spec.",
)
WAITING_FOR_STABLE = Reason(
    "WaitingForStable",
    ConditionType.PROGRESSING,
    _TRUE,
    "The diffusion revision is ready, but the AR model that should serve the rest of the requests never was.",
    "Wait for the AR pods, or repair fallback. To serve diffusion without a proven AR model set "
    "rollout.initialPercent to 100.",
)
CANARY_SERVING = Reason(
    "CanaryServing",
    ConditionType.PROGRESSING,
    _TRUE,
    "A new revision serves its share of the requests beside the stable arm, and is measured.",
    "Watch it: `diffusion-operator explain NAME`. To promote it at once set rollout.initialPercent to 100 or ask for "
    "promote-all; to withdraw it apply the old spec again. docs/rollout.md has all commands.",
)
ROLLOUT_WAITING = Reason(
    "RolloutWaiting",
    ConditionType.PROGRESSING,
    _TRUE,
    "The revision that spec asks for gets no requests yet. The message says what it waits for.",
    "Wait; it takes seconds. If it stays: the arm that the message names has no ready pod, or a ready gateway pod does "
    "not answer on its admin port or cannot reach the API server.",
)
ROLLOUT_HELD = Reason(
    "RolloutHeld",
    ConditionType.PROGRESSING,
    _TRUE,
    "The canary keeps its weight: a gate has no verdict that lets it go on, or time does not count.",
    "The message names the gate and what it needs: more requests, a metrics store that answers, pods that are ready. "
    "Or decide yourself: promote, abort.",
)
HELD_TOO_LONG = Reason(
    "HeldTooLong",
    ConditionType.PROGRESSING,
    _FALSE,
    "The canary is held for longer than rollout.maxHold, and rollout.onInconclusive says Hold.",
    "As for RolloutHeld: a person must decide now.",
)
ROLLED_BACK = Reason(
    "RolledBack",
    ConditionType.PROGRESSING,
    _FALSE,
    "A gate proved that the revision is worse than its limits, or a person aborted it. It gets no requests; what served "
    "before serves again.",
    "`diffusion-operator explain NAME` shows the numbers. Apply another spec, or ask for retry if the cause is gone.",
)
ROLLBACK_BLOCKED = Reason(
    "FallbackUnavailable",
    ConditionType.PROGRESSING,
    _FALSE,
    "A revision should lose its requests, but what would take them over has no ready pod. It serves on, since nothing "
    "would be worse.",
    "Bring the arm that the message names back: the rollback follows by itself.",
)
WAITING_FOR_ENDPOINT = Reason(
    "WaitingForEndpoint",
    ConditionType.PROGRESSING,
    _TRUE,
    "The server that fallback.endpoint names did not answer yet. What was the fallback before goes on.",
    "The message says what was found. The condition FallbackAvailable has the remedies.",
)
RETIRING = Reason(
    "RetiringRevision",
    ConditionType.PROGRESSING,
    _TRUE,
    "An old revision's pods stay until every gateway has stopped sending requests to them.",
    "Wait; it takes seconds. If it stays: a ready gateway pod does not answer on its admin port, or cannot reach "
    "the API server. The "
    "message names it.",
)
PAUSED = Reason(
    "Paused",
    ConditionType.PROGRESSING,
    _FALSE,
    "rollout.paused, or a person by annotation, holds the weight. A proven failure still rolls back.",
    "Set rollout.paused to false, or ask for resume, to go on.",
)
PODS_NOT_STARTING = Reason(
    "PodsNotStarting",
    ConditionType.PROGRESSING,
    _FALSE,
    "A revision's pods did not become ready in ten minutes. What served before goes on; the operator keeps trying.",
    "The message says what the pods wait for: an image that cannot be pulled, a node with room, a checkpoint that "
    "cannot be loaded. "
    "`kubectl describe pod` and `kubectl logs` say more. Correct spec or cluster.",
)
CHILD_REJECTED = Reason(
    "ChildRejected",
    ConditionType.PROGRESSING,
    _FALSE,
    "The API server refused a Deployment, Service, ConfigMap or Job of this resource. What served before goes on; the "
    "operator keeps trying.",
    "The message quotes the API server: a quota, an admission policy, or a value in resources that pods cannot "
    "have. Correct that.",
)
INVALID_PROGRESSING = Reason("SpecInvalid", ConditionType.PROGRESSING, _FALSE, INVALID.means, INVALID.remedy)

FALLBACK_READY = Reason(
    "FallbackReady", ConditionType.FALLBACK_AVAILABLE, _TRUE, "The AR model has a ready pod.", _NOTHING
)
FALLBACK_STARTING = Reason(
    "FallbackStarting",
    ConditionType.FALLBACK_AVAILABLE,
    _FALSE,
    "The AR model has not had a ready pod yet.",
    "Wait for its pods.",
)
FALLBACK_NOT_READY = Reason(
    "FallbackNotReady",
    ConditionType.FALLBACK_AVAILABLE,
    _FALSE,
    "The AR model has no ready pod now. A request that diffusion cannot answer fails.",
    "`kubectl get pods -l serving.diffusion-operator.dev/model=NAME,serving.diffusion-operator.dev/kind=ar`, then "
    "`kubectl describe` "
    "and `kubectl logs`.",
)
ENDPOINT_READY = Reason(
    "EndpointReady",
    ConditionType.FALLBACK_AVAILABLE,
    _TRUE,
    "fallback.endpoint answers and knows the model. The message says after which prompts it can score.",
    _NOTHING,
)
ENDPOINT_CANNOT_SCORE = Reason(
    "EndpointCannotScore",
    ConditionType.FALLBACK_AVAILABLE,
    _TRUE,
    "fallback.endpoint answers, and gives no log-probabilities of prompts: there are no pairs, and perplexityRatio is not "
    "judged. The other gates are.",
    "Nothing, if that is known. Otherwise a server that gives them, such as vLLM, or fallback.model. See "
    "docs/external-fallback.md.",
)
ENDPOINT_UNKNOWN = Reason(
    "EndpointUnknown",
    ConditionType.FALLBACK_AVAILABLE,
    _UNKNOWN,
    "No gateway has asked fallback.endpoint yet.",
    "Wait; it takes seconds. If it stays: no gateway pod is ready, or the operator cannot reach its admin port.",
)
ENDPOINT_UNREACHABLE = Reason(
    "EndpointUnreachable",
    ConditionType.FALLBACK_AVAILABLE,
    _FALSE,
    "fallback.endpoint cannot be reached from a gateway, or does not answer as an OpenAI-compatible server.",
    "The message says what happened. Check url (with its /v1), the server, DNS and network policies between gateway and "
    "server.",
)
ENDPOINT_UNAUTHORIZED = Reason(
    "EndpointUnauthorized",
    ConditionType.FALLBACK_AVAILABLE,
    _FALSE,
    "fallback.endpoint refuses the key, or wants one and secretRef names none.",
    "Put a valid key into the Secret: the gateway takes it within seconds.",
)
ENDPOINT_MODEL_MISSING = Reason(
    "EndpointModelMissing",
    ConditionType.FALLBACK_AVAILABLE,
    _FALSE,
    "fallback.endpoint answers, and does not list the model that spec names.",
    "`curl URL/models` lists what it has: correct fallback.endpoint.model, or load the model there.",
)
SECRET_MISSING = Reason(
    "SecretMissing",
    ConditionType.FALLBACK_AVAILABLE,
    _FALSE,
    "The gateway cannot read the key of fallback.endpoint: there is no such Secret or entry, or the gateway may not read it.",
    "Create the Secret in the namespace of the resource, and let the gateway's service account get it: docs/external-fallback.md "
    "has the Role; gateway.readSecrets of the chart allows all Secrets.",
)
FALLBACK_UNKNOWN = Reason("SpecInvalid", ConditionType.FALLBACK_AVAILABLE, _UNKNOWN, INVALID.means, INVALID.remedy)

PLANNED = Reason("Planned", ConditionType.SIZED, _TRUE, "What spec asks for fits the memory of a pod.", _NOTHING)
DOES_NOT_FIT = Reason(
    "DoesNotFit",
    ConditionType.SIZED,
    _FALSE,
    "What spec asks for does not fit the memory of a pod. A new revision of it gets no pods; what served before goes on.",
    "The message has the numbers, and what would fit. Set limits.maxBatchSize or limits.maxSequenceLength to that, or to "
    "auto; or give pods more memory.",
)
WRONG_MODEL = Reason(
    "WrongModel",
    ConditionType.SIZED,
    _FALSE,
    "A checkpoint is of the wrong kind for its place. A new revision of it gets no pods; what served before goes on.",
    "spec.model is the diffusion model, spec.fallback.model the autoregressive one: the message says which is not.",
)
FACTS_UNAVAILABLE = Reason(
    "FactsUnavailable",
    ConditionType.SIZED,
    _FALSE,
    "The checkpoint could not be read by the Job that inspects it. A new revision of it gets no pods; what served before "
    "goes on. The Job is made again, ever less often, at last once an hour.",
    "The message quotes `diffusion-worker inspect`. Correct the source, its token or its files; the next Job is made at "
    "once when spec.model or the worker image changes.",
)
INSPECTING = Reason(
    "Inspecting",
    ConditionType.SIZED,
    _UNKNOWN,
    "A Job reads the headers of the checkpoint. A new revision of it gets pods once it is known to fit.",
    "Wait; it takes seconds once its pod runs. If it stays, the message says what the pod waits for.",
)
NOT_LIMITED = Reason(
    "NotLimited",
    ConditionType.SIZED,
    _UNKNOWN,
    "The memory of the GPU is not known: limits are taken as they are written, and auto as their defaults.",
    "Set resources.gpuMemory, or let nodes have the label nvidia.com/gpu.memory (NVIDIA's GPU feature discovery sets it) "
    "and the operator a role that lists nodes.",
)
SIZING_OFF = Reason(
    "SizingOff",
    ConditionType.SIZED,
    _UNKNOWN,
    "The operator runs with --sizing=off: limits are taken as they are written, and auto as their defaults.",
    "Set limits.maxBatchSize and limits.maxSequenceLength to what is known to fit.",
)
INVALID_SIZED = Reason("SpecInvalid", ConditionType.SIZED, _UNKNOWN, INVALID.means, INVALID.remedy)
HELD_BY_SIZING = Reason(
    "NotSized",
    ConditionType.PROGRESSING,
    _FALSE,
    "A revision gets no pods because it does not fit the memory, or its checkpoint cannot be read. What served before "
    "goes on.",
    "The message of Sized says why, and what to do.",
)
INSPECTING_FIRST = Reason(
    "Inspecting",
    ConditionType.PROGRESSING,
    _TRUE,
    "A revision gets pods once a Job has read the headers of its checkpoint and they are known to fit.",
    INSPECTING.remedy,
)

METRICS_READ = Reason(
    "MetricsRead", ConditionType.METRICS_AVAILABLE, _TRUE, "Every gate has data, or waits for more of it.", _NOTHING
)
METRICS_UNREADABLE = Reason(
    "MetricsUnreadable",
    ConditionType.METRICS_AVAILABLE,
    _FALSE,
    "A gate has no data: the metrics store is not configured, does not answer, or has no such series. No time counts and "
    "no weight moves by itself; crashes and people still move it.",
    "The message says which gate and why. See docs/monitoring.md.",
)
NOTHING_MEASURED = Reason(
    "NothingMeasured",
    ConditionType.METRICS_AVAILABLE,
    _UNKNOWN,
    "No diffusion revision serves requests, so there is nothing to measure.",
    _NOTHING,
)

REASONS: tuple[Reason, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Reason))
