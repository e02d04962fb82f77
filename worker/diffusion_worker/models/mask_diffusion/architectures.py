"""From the config.json of a LLaDA or Dream checkpoint to the model class of transformers that has the same layers.

LLaDA (modeling_llada.py on the hub): Llama's layers under the names of OLMo, without the causal mask. Dream
(modeling_dream.py): Qwen 2's, fine-tuned from its weights, so that logits at position i are of token i + 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)

from diffusion_worker.models.checkpoint import Checkpoint, read_json
from diffusion_worker.models.errors import UnsupportedCheckpointError


@dataclass(frozen=True)
class Architecture:
    """How a checkpoint becomes a model."""

    model_class: Any
    config: PreTrainedConfig
    tokenizer_class: Any  # of transformers; the hub's own one would be remote code
    mask_token_id: int
    shift: int  # 1: the logits at a position are of the token after it
    turn_end: str  # token that ends an answer in a chat, beside the configuration's EOS
    names: Mapping[str, str]  # parts of weights' names, from the checkpoint's to transformers'

    def name_in_checkpoint(self, name: str) -> str:
        """A weight's name in the checkpoint's files, for messages."""
        for theirs, ours in self.names.items():
            if ours in name:
                name = name.replace(ours, theirs)
        return name


class _LLaDAConfig(BaseModel):
    """The fields that matter. Those with a single value are OLMo's options that no published LLaDA uses."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    d_model: int
    n_heads: int
    n_kv_heads: int | None = None
    multi_query_attention: bool | None = None
    n_layers: int
    mlp_hidden_size: int
    vocab_size: int
    embedding_size: int | None = None  # rows of the embedding
    max_sequence_length: int
    mask_token_id: int
    eos_token_id: int | list[int] | None = None
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    weight_tying: bool = False
    block_type: Literal["llama"] = "llama"
    block_group_size: Literal[1] = 1
    activation_type: Literal["silu"] = "silu"
    layer_norm_type: Literal["rms"] = "rms"
    layer_norm_with_affine: Literal[True] = True
    attention_layer_norm: Literal[False] = False
    bias_for_layer_norm: Literal[False] | None = None
    include_bias: Literal[False] = False
    include_qkv_bias: Literal[False] | None = None
    input_emb_norm: Literal[False] = False
    scale_logits: Literal[False] = False
    rope: Literal[True] = True
    alibi: Literal[False] = False

    def architecture(self) -> Architecture:
        kv_heads = self.n_kv_heads or (1 if self.multi_query_attention else self.n_heads)
        return Architecture(
            model_class=LlamaForCausalLM,
            config=LlamaConfig(
                vocab_size=self.embedding_size or self.vocab_size,
                hidden_size=self.d_model,
                intermediate_size=self.mlp_hidden_size,
                num_hidden_layers=self.n_layers,
                num_attention_heads=self.n_heads,
                num_key_value_heads=kv_heads,
                max_position_embeddings=self.max_sequence_length,
                rms_norm_eps=self.rms_norm_eps,
                rope_parameters={"rope_type": "default", "rope_theta": self.rope_theta},
                tie_word_embeddings=self.weight_tying,
                bos_token_id=None,
                eos_token_id=self.eos_token_id,
            ),
            tokenizer_class=PreTrainedTokenizerFast,
            mask_token_id=self.mask_token_id,
            shift=0,
            turn_end="<|eot_id|>",
            names=_LLADA_NAMES,
        )


_LLADA_NAMES = {
    "model.transformer.blocks.": "model.layers.",
    ".q_proj.": ".self_attn.q_proj.",
    ".k_proj.": ".self_attn.k_proj.",
    ".v_proj.": ".self_attn.v_proj.",
    ".attn_out.": ".self_attn.o_proj.",
    ".attn_norm.": ".input_layernorm.",
    ".ff_norm.": ".post_attention_layernorm.",
    ".ff_proj.": ".mlp.gate_proj.",
    ".up_proj.": ".mlp.up_proj.",
    "model.transformer.ff_out.": "lm_head.",
    ".ff_out.": ".mlp.down_proj.",
    "model.transformer.wte.": "model.embed_tokens.",
    "model.transformer.ln_f.": "model.norm.",
}


class _DreamConfig(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    max_position_embeddings: int
    mask_token_id: int
    eos_token_id: int | list[int] | None = None
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    hidden_act: Literal["silu"] = "silu"
    use_sliding_window: Literal[False] = False
    rope_scaling: None = None
    block_size: None = None  # set in block-causal relatives, whose attention and shift are different

    def architecture(self) -> Architecture:
        return Architecture(
            model_class=Qwen2ForCausalLM,
            config=Qwen2Config(
                vocab_size=self.vocab_size,
                hidden_size=self.hidden_size,
                intermediate_size=self.intermediate_size,
                num_hidden_layers=self.num_hidden_layers,
                num_attention_heads=self.num_attention_heads,
                num_key_value_heads=self.num_key_value_heads,
                max_position_embeddings=self.max_position_embeddings,
                rms_norm_eps=self.rms_norm_eps,
                rope_parameters={"rope_type": "default", "rope_theta": self.rope_theta},
                tie_word_embeddings=self.tie_word_embeddings,
                eos_token_id=self.eos_token_id,
            ),
            tokenizer_class=Qwen2Tokenizer,
            mask_token_id=self.mask_token_id,
            shift=1,
            turn_end="<|im_end|>",
            names={},
        )


_CONFIGS: dict[str, type[_LLaDAConfig | _DreamConfig]] = {"llada": _LLaDAConfig, "dream": _DreamConfig}


def is_mask_model(model_type: str) -> bool:
    """Whether checkpoints of this type are read here."""
    return model_type.lower() in _CONFIGS


def architecture_of(checkpoint: Checkpoint) -> Architecture:
    """What the checkpoint is; UnsupportedCheckpointError for a relative with other layers."""
    try:
        config = _CONFIGS[checkpoint.model_type.lower()].model_validate(read_json(checkpoint.folder / "config.json"))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}, not {fault['input']!r}"
            if fault["type"] != "missing"
            else f"{'.'.join(map(str, fault['loc']))} is missing"
            for fault in error.errors()
        )
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} holds a model of type {checkpoint.model_type} that is not served: {faults}"
        ) from error
    if not 0 <= config.mask_token_id < max(config.vocab_size, getattr(config, "embedding_size", None) or 0):
        raise UnsupportedCheckpointError(
            f"{checkpoint.folder} has mask_token_id {config.mask_token_id} beyond its vocabulary of {config.vocab_size}"
        )
    try:
        return config.architecture()
    except Exception as error:  # a validator of transformers, with an error of its own
        raise UnsupportedCheckpointError(f"config.json in {checkpoint.folder} makes no model: {error}") from error
