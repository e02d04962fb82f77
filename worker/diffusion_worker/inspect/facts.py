"""The facts of a model that decide how much memory it needs. Shared with the operator, which plans from them."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Family(StrEnum):
    """How the model makes text."""

    BLOCK_DIFFUSION = "block_diffusion"  # canvases, with exact KV of what is committed (DiffusionGemma)
    MASKED_DIFFUSION = "masked_diffusion"  # fully bidirectional, blocks are the sampler's choice (LLaDA, Dream)
    AUTOREGRESSIVE = "autoregressive"


class LayerKind(StrEnum):
    """How far a layer's attention reaches."""

    FULL = "full"
    SLIDING = "sliding"


class WeightPart(StrEnum):
    """What weights are for: quantisation and tensor parallelism treat the parts differently."""

    EMBEDDING = "embedding"  # rows of the vocabulary: token embedding, and the output head when it is not tied
    EXPERTS = "experts"  # routed experts
    MATRICES = "matrices"  # all other matrices of the text layers
    OTHER = "other"  # norms, routers, biases, self-conditioning
    VISION = "vision"  # encoders of images and sound, which are loaded though text does not use them


class Source(StrEnum):
    """What the numbers of weights come from."""

    HEADERS = "headers"  # each tensor's shape: exact
    INDEX = "index"  # a total, shared out by the shapes that config.json implies


class _Fact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LayerGroup(_Fact):
    """Attention layers that are alike."""

    kind: LayerKind
    layers: int = Field(ge=1)
    window: int | None = Field(default=None, ge=1, description="Tokens a query sees, its own included; sliding only.")
    heads: int = Field(ge=1, description="Query heads.")
    kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=1)
    kv_layers: int = Field(
        ge=0, description="Layers that keep keys and values; the others read those of an earlier one."
    )


class WeightGroup(_Fact):
    """Weights of one part in one number format."""

    part: WeightPart
    dtype: str = Field(description="As safetensors names it: BF16, F32, F8_E4M3, U8, …")
    parameters: int = Field(ge=0, description="Elements as stored; a packed format holds several values in one.")
    stored_bytes: int = Field(ge=0)


class Experts(_Fact):
    """Mixture of experts."""

    total: int = Field(ge=1)
    active: int = Field(ge=1, description="Per token.")
    intermediate_size: int = Field(ge=1, description="Width of one expert.")


class ModelFacts(_Fact):
    """A language model. As compact JSON below 4,096 bytes, the limit of a container's termination message."""

    model_type: str
    architecture: str | None = None
    family: Family
    revision: str | None = Field(default=None, description="Commit on the hub that the facts are of.")
    dtype: str = Field(description="What config.json says that the weights shall be held in; float32 when it does not.")
    quantization: str | None = Field(default=None, description="Method when the checkpoint is quantised already.")
    weights: tuple[WeightGroup, ...]
    weights_from: Source = Source.HEADERS
    layers: tuple[LayerGroup, ...]
    hidden_size: int = Field(ge=1)
    intermediate_size: int = Field(ge=1, description="Width of the dense feed-forward part.")
    vocab_size: int = Field(ge=1, description="Rows of the output head, padding included.")
    max_positions: int = Field(ge=1, description="Tokens of one sequence.")
    tied_embeddings: bool
    shared_kv_projection: bool = Field(
        default=False, description="Full layers project keys and values with one matrix (k_eq_v). Both are cached."
    )
    canvas_length: int | None = Field(
        default=None, ge=1, description="Tokens per canvas that the model is trained for."
    )
    self_conditioning: bool = False
    experts: Experts | None = None
    unknown_fields: tuple[str, ...] = Field(
        default=(), description="Fields of config.json that were not understood, at most 16. They may need memory."
    )

    @property
    def layer_count(self) -> int:
        """Layers of all kinds."""
        return sum(group.layers for group in self.layers)

    @property
    def parameters(self) -> int:
        """Elements of all weights as stored."""
        return sum(group.parameters for group in self.weights)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all weights as stored."""
        return sum(group.stored_bytes for group in self.weights)

    @property
    def active_parameters(self) -> int:
        """Parameters that take part in one token of text: all, less vision and the experts it is not routed to."""
        text = [group for group in self.weights if group.part is not WeightPart.VISION]
        parameters = sum(group.parameters for group in text)
        if self.experts is None:
            return parameters
        routed = sum(group.parameters for group in text if group.part is WeightPart.EXPERTS)
        return parameters - routed * (self.experts.total - self.experts.active) // self.experts.total
