"""`spec`: what a user asks for. Descriptions here are what `kubectl explain` prints.

There are no defaults in the schema, so that the API server never rewrites what a user applied; each description names
the default, and `diffusion_operator.core.defaults` holds it.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from .base import ApiModel
from .sampler import Attention, Sampler
from .units import Duration, PositiveDuration, Quantity, QuantityOrAuto, cel, positive

_SOURCE_REMEDY = (
    "write hf://organisation/repository, pvc://claim/path, image://registry/name:tag or file:///absolute/path "
    "(a folder in the worker image)"
)
_SOURCE_RULE = (
    r"self.matches('^(hf://[A-Za-z0-9._-]+/[A-Za-z0-9._-]+|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[A-Za-z0-9._/-]*)?|"
    r"image://[A-Za-z0-9][A-Za-z0-9._:/@-]*|file:///[A-Za-z0-9._/-]+)$') && !self.contains('..')"
)


class SecretKeyRef(ApiModel):
    """A key of a Secret in the namespace of the resource."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret.")
    key: str = Field(min_length=1, max_length=253, description="Key in the Secret.")


class ModelSource(ApiModel):
    """A checkpoint."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.revision) || self.source.startsWith('hf://')",
                "revision is a commit on the hub: remove it, or use an hf:// source",
            ),
            (
                "!has(self.tokenSecretRef) || self.source.startsWith('hf://')",
                "tokenSecretRef is a token of the hub: remove it, or use an hf:// source",
            ),
        )
    )

    source: str = Field(
        min_length=1,
        max_length=512,
        json_schema_extra=cel((_SOURCE_RULE, f"not a model source: {_SOURCE_REMEDY}")),
        description="Where the checkpoint is: hf://organisation/repository (downloaded by each pod), "
        "pvc://claim/path (a claim in the "
        "namespace of the resource, mounted read-only), image://reference (an OCI image or artifact, mounted "
        "read-only) or "
        "file:///path (a folder in the worker image).",
    )
    revision: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="Commit, tag or branch of an hf:// repository. Pin a commit: a branch can change under a "
        "running service. "
        "Default: the repository's main branch.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] | None = Field(
        default=None,
        description="Number format of the weights in memory. Default: auto (as the checkpoint says; float32 on CPU).",
    )
    token_secret_ref: SecretKeyRef | None = Field(
        default=None,
        description="Secret with a token of the hub, for private and gated repositories. Default: no token is sent.",
    )


class FallbackEndpoint(ApiModel):
    """An OpenAI-compatible server that is there already, such as vLLM."""

    url: str = Field(
        max_length=512,
        json_schema_extra=cel(
            (
                "self.matches('^https?://[^/ ]+(/[^ ]*)?$')",
                "not an address: write http://host:port/v1 or https://host/v1",
            )
        ),
        description="Base address of the API, such as http://vllm.models.svc:8000/v1.",
    )
    model: str = Field(min_length=1, max_length=253, description="Name of the model at that server.")
    secret_ref: SecretKeyRef | None = Field(
        default=None,
        description="Secret with the bearer token. The gateway must be allowed to read it. Default: no token is sent.",
    )


_ONE_FALLBACK = "give exactly one of model (an autoregressive checkpoint that we serve) and endpoint (a server that is there already)"


class Fallback(ApiModel):
    """The autoregressive model behind the diffusion model."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "has(self.model) != has(self.endpoint)",
                _ONE_FALLBACK,
            )
        )
    )

    model: ModelSource | None = Field(
        default=None,
        description="An autoregressive checkpoint, best of the same size and tokenizer. Served by pods of its own.",
    )
    endpoint: FallbackEndpoint | None = Field(
        default=None,
        description="An OpenAI-compatible server that is there already (vLLM, ...), instead of model. "
        "docs/external-fallback.md says what it must do.",
    )

    @model_validator(mode="after")
    def _has_one(self) -> "Fallback":
        if (self.model is None) == (self.endpoint is None):
            raise ValueError(_ONE_FALLBACK)
        return self


_AUTO_OR_ROWS = cel(
    ("type(self) == int ? self >= 1 && self <= 64 : self == 'auto'", "neither auto nor a whole number from 1 to 64")
)
_AUTO_OR_TOKENS = cel(
    (
        "type(self) == int ? self >= 16 && self <= 1048576 : self == 'auto'",
        "neither auto nor a whole number from 16 to 1048576",
    )
)
_INT_OR_STRING = {"x-kubernetes-int-or-string": True}


class Limits(ApiModel):
    """How much one pod takes on."""

    max_batch_size: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None,
        json_schema_extra=_INT_OR_STRING | _AUTO_OR_ROWS,
        description="Most requests in flight in one pod, 1 to 64, which must fit the memory at full length. auto: as "
        "many as fit, and more of shorter ones; where the memory is not known, 8. "
        "Default: 8. Where fewer fit at full length, as many as fit are admitted.",
    )
    max_sequence_length: Literal["auto"] | Annotated[int, Field(ge=16, le=1048576)] | None = Field(
        default=None,
        json_schema_extra=_INT_OR_STRING | _AUTO_OR_TOKENS,
        description="Most tokens of one request, prompt and output together. auto: the model's own limit, or less "
        "where that does not fit the memory. Default: the model's own limit, which must fit.",
    )
    batch_window: Duration | None = Field(
        default=None,
        json_schema_extra=cel(
            (
                "!self.matches('^([0-9]+(ms|s|m|h))+$') || duration(self) <= duration('100ms')",
                "longer than 100ms: write 0ms to 100ms; a longer wait helps no batch and delays each first token",
            )
        ),
        description="How long an idle pod waits for more requests before it starts, at most 100ms. Never delays a "
        "running batch. Default: 50ms.",
    )
    queue_size: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Requests that may wait in one pod; more are sent to the fallback or refused. Default: 64.",
    )
    request_timeout: PositiveDuration | None = Field(
        default=None,
        json_schema_extra=positive("0 would refuse every request: write a positive duration such as 30s"),
        description="How long a request may wait in one pod before it goes to the fallback. Default: 30s.",
    )


class Toleration(ApiModel):
    """Lets pods run on tainted nodes, as in a Pod."""

    key: str | None = Field(
        default=None, max_length=253, description="Key of the taint. Absent with operator Exists: all taints."
    )
    operator: Literal["Exists", "Equal"] | None = Field(
        default=None, description="How value is compared. Default: Equal."
    )
    value: str | None = Field(default=None, max_length=63, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint. Default: all effects."
    )
    toleration_seconds: int | None = Field(
        default=None, ge=0, description="For NoExecute: how long a pod may stay. Default: for ever."
    )


class Resources(ApiModel):
    """What each pod of a model gets: the diffusion pods and the AR pods alike."""

    gpus: int | None = Field(
        default=None, ge=0, le=8, description="GPUs per pod (nvidia.com/gpu). Default: 0, which serves on CPU."
    )
    gpu_memory: QuantityOrAuto | None = Field(
        default=None,
        description="Memory of one GPU, such as 80Gi; for pods on CPU it has no meaning. Default: auto, from the label "
        "nvidia.com/gpu.memory of the nodes that nodeSelector allows, the smallest that was ever seen among them.",
    )
    memory_utilization: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Share of the memory that may be planned with, of the GPU or on CPU of the container. Default: 0.9.",
    )
    cpu: Quantity | None = Field(
        default=None,
        description="Cores requested per pod. On CPU it also sets the number of compute threads, rounded up. "
        "Default: 1.",
    )
    memory: Quantity | None = Field(
        default=None,
        description="Main memory per pod, requested and limited. Default: 2Gi. With a GPU the default is more by the weights, "
        "which pass through main memory when they are loaded.",
    )
    node_selector: dict[str, Annotated[str, Field(max_length=63)]] | None = Field(
        default=None, max_length=32, description="Labels that a node must have."
    )
    tolerations: list[Toleration] | None = Field(default=None, max_length=32, description="Taints that pods tolerate.")
    runtime_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="RuntimeClass of the pods, such as nvidia. Default: the cluster's.",
    )
    shm_size: Quantity | None = Field(
        default=None,
        description="Size of /dev/shm, through which Triton passes tensors. Counts as memory. Default: 256Mi.",
    )
    cache_claim: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="PersistentVolumeClaim in the namespace of the resource where pods keep what they download from "
        "the hub, so that it is downloaded once. Pods on several nodes need one that is ReadWriteMany. "
        "Default: each pod downloads for itself.",
    )


class PerplexityGate(ApiModel):
    """Perplexity against the AR model, both scored by the AR model on the same prompts."""

    max: float | None = Field(default=None, gt=0, description="Highest ratio diffusion : AR. Default: 1.15.")
    min_samples: int | None = Field(default=None, ge=1, description="Pairs before a verdict. Default: 200.")


class RepetitionGate(ApiModel):
    """Share of answers that repeat themselves."""

    max: float | None = Field(
        default=None, ge=0, le=1, description="Highest share of repeating answers. Default: 0.15."
    )
    window: int | None = Field(
        default=None, ge=2, le=4096, description="Tokens in which a repetition counts. Default: 32."
    )
    min_samples: int | None = Field(default=None, ge=1, description="Answers before a verdict. Default: 200.")


class FirstTokenGate(ApiModel):
    """Time from a request to its first text."""

    p95: PositiveDuration | None = Field(
        default=None,
        json_schema_extra=positive("0 can never be met: write a positive duration such as 500ms"),
        description="Highest 95th percentile. Default: 500ms.",
    )
    min_samples: int | None = Field(default=None, ge=1, description="Answers before a verdict. Default: 200.")


class LatencyGate(ApiModel):
    """Total latency against the AR model at equal output length."""

    max: float | None = Field(default=None, gt=0, description="Highest ratio diffusion : AR. Default: 0.30.")
    min_samples: int | None = Field(default=None, ge=1, description="Answers before a verdict. Default: 200.")


class ErrorGate(ApiModel):
    """Share of requests that the arm could not answer."""

    max: float | None = Field(default=None, ge=0, le=1, description="Highest share of failed requests. Default: 0.01.")
    window: PositiveDuration | None = Field(
        default=None,
        json_schema_extra=positive("0 can hold no request: write a positive duration such as 5m"),
        description="Time over which the share is taken. Default: 5m.",
    )
    min_samples: int | None = Field(default=None, ge=1, description="Requests before a verdict. Default: 50.")


class Gates(ApiModel):
    """What a revision must hold to climb. A gate that is absent has its default."""

    perplexity_ratio: PerplexityGate | None = Field(default=None, description="Perplexity against the AR model.")
    repetition_rate: RepetitionGate | None = Field(default=None, description="Share of answers that repeat themselves.")
    time_to_first_token: FirstTokenGate | None = Field(default=None, description="Time to the first text.")
    latency_ratio: LatencyGate | None = Field(default=None, description="Total latency against the AR model.")
    error_rate: ErrorGate | None = Field(default=None, description="Share of failed requests.")


class Rollout(ApiModel):
    """How a new diffusion revision takes over from what serves now."""

    initial_percent: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Share of the requests that a new revision gets once it is ready, 1 to 100. The rest stays with "
        "the promoted revision, "
        "or with the AR model while there is none. 100 promotes it at once, also in the middle of a rollout. Default: 5.",
    )
    step_percent: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="What each step adds, in percent of the requests. Default: 5.",
    )
    step_duration: PositiveDuration | None = Field(
        default=None,
        json_schema_extra=positive("0 would skip all observation: write a positive duration such as 24h"),
        description="Observed time per step; time without metrics does not count. Default: 24h.",
    )
    paused: bool | None = Field(
        default=None,
        description="Hold the weight where it is: nothing starts and nothing climbs. Pods and repairs go on, a proven "
        "failure still rolls back, and a canary that spec no longer asks for still goes. Default: false.",
    )
    on_inconclusive: Literal["Hold", "Rollback"] | None = Field(
        default=None,
        description="What to do when maxHold has passed without a verdict. Default: Hold.",
    )
    max_hold: PositiveDuration | None = Field(
        default=None,
        json_schema_extra=positive("0 would never wait for a verdict: write a positive duration such as 168h"),
        description="How long a step may go without a verdict. Default: 168h.",
    )
    gates: Gates | None = Field(default=None, description="What the revision must hold to climb.")


class Routing(ApiModel):
    """Which requests go to which arm, beside the weights."""

    min_output_tokens: int | None = Field(
        default=None,
        ge=0,
        le=4096,
        description="Requests for fewer tokens (max_tokens) go to AR. 0 sends none. Default: 32.",
    )
    causal_workloads: list[Literal["code", "math"]] | None = Field(
        default=None,
        max_length=2,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="Kinds of work that go to AR. An empty list sends none. Default: code and math.",
    )
    detect_workload: bool | None = Field(
        default=None,
        description="Guess the kind of work from the prompt when the request does not say. Default: true.",
    )
    sticky: Literal["none", "user"] | None = Field(
        default=None,
        description="user keeps each user (the request's field user, or the header x-diffusion-user) on one arm; a step "
        "of the rollout moves only those who come to the new revision. Default: none.",
    )
    on_unconverged: Literal["Fallback", "Accept"] | None = Field(
        default=None,
        description="What to do with an answer whose canvases hit the model's own cap of steps before they were "
        "stable: Fallback has AR answer instead, Accept sends it. Where sampler.maxDenoisingSteps or the request sets "
        "the cap, answers are always accepted. Default: Fallback.",
    )


class Scoring(ApiModel):
    """Measuring quality in pairs, off the request path."""

    sample_percent: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Share of the diffusion answers that AR answers too in the background, for comparison. 0 compares none. Default: 5.",
    )


class DiffusionModelSpec(ApiModel):
    """A block-diffusion language model, the autoregressive model behind it, and how to run both."""

    model: ModelSource = Field(description="The diffusion checkpoint.")
    fallback: Fallback = Field(
        description="The autoregressive (AR) model that serves until diffusion is ready, and takes over requests "
        "that diffusion cannot answer. "
        "Exactly one of model and endpoint."
    )
    sampler: Sampler | None = Field(
        default=None, description="How a canvas (a block of tokens that is denoised together) is sampled."
    )
    attention: Attention | None = Field(
        default=None, description="What a canvas sees of the text before it. Absent: all of it."
    )
    limits: Limits | None = Field(default=None, description="How much one pod takes on.")
    resources: Resources | None = Field(
        default=None, description="What each pod gets: CPU, memory, GPUs, and on which nodes it may run."
    )
    replicas: int | None = Field(
        default=None, ge=1, le=1000, description="Pods per revision, diffusion and AR alike. Default: 1."
    )
    rollout: Rollout | None = Field(
        default=None, description="How a new diffusion revision takes over from what serves now."
    )
    routing: Routing | None = Field(default=None, description="Which requests go to which arm, beside the weights.")
    scoring: Scoring | None = Field(default=None, description="Measuring quality in pairs, off the request path.")
