"""Fields of a config.json under the names that different families give them."""

from collections.abc import Mapping
from typing import Any

from diffusion_worker.inspect.errors import InspectError

# Ours first: as most of transformers' models have it. Then GPT-2's and LLaDA's.
_NAMES = {
    "num_hidden_layers": ("num_hidden_layers", "n_layers", "n_layer"),
    "hidden_size": ("hidden_size", "d_model", "n_embd"),
    "num_attention_heads": ("num_attention_heads", "n_heads", "n_head"),
    "num_key_value_heads": ("num_key_value_heads", "n_kv_heads"),
    "head_dim": ("head_dim",),
    "intermediate_size": ("intermediate_size", "mlp_hidden_size", "n_inner"),
    "mlp_ratio": ("mlp_ratio",),
    "vocab_size": ("vocab_size",),
    "embedding_size": ("embedding_size",),
    "max_position_embeddings": ("max_position_embeddings", "max_sequence_length", "n_positions"),
    "sliding_window": ("sliding_window",),
    "max_window_layers": ("max_window_layers",),
    "sliding_window_pattern": ("sliding_window_pattern",),
    "num_kv_shared_layers": ("num_kv_shared_layers",),
    "global_head_dim": ("global_head_dim",),
    "num_global_key_value_heads": ("num_global_key_value_heads",),
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "active_experts": ("top_k_experts", "num_experts_per_tok", "moe_top_k"),
    "moe_intermediate_size": ("moe_intermediate_size", "expert_intermediate_size"),
    "canvas_length": ("canvas_length",),
}
_READ_ELSEWHERE = {
    "architectures", "model_type", "text_config", "dtype", "torch_dtype", "quantization_config", "layer_types",
    "use_sliding_window", "per_layer_config", "attention_k_eq_v", "use_bidirectional_attention", "tie_word_embeddings",
    "weight_tying", "multi_query_attention", "is_encoder_decoder", "kv_lora_rank", "block_size", "block_group_size",
}  # fmt: skip
# Fields that change what is computed but not how much memory it takes. Anything in neither list is reported.
_NO_MEMORY = {
    "rope_parameters", "rope_scaling", "rope_theta", "rope_local_base_freq", "rope", "rope_full_precision", "hidden_act",
    "hidden_activation", "activation_type", "initializer_range", "initializer_cutoff_factor", "rms_norm_eps",
    "layer_norm_eps", "layer_norm_epsilon", "layer_norm_type", "layer_norm_with_affine", "attention_layer_norm",
    "attention_layer_norm_with_affine", "attention_bias", "attention_dropout", "mlp_bias", "include_bias",
    "include_qkv_bias", "bias_for_layer_norm", "use_cache", "transformers_version", "pretraining_tp", "auto_map",
    "bos_token_id", "eos_token_id", "pad_token_id", "mask_token_id", "boi_token_id", "eoi_token_id", "image_token_id",
    "final_logit_softcapping", "attn_logit_softcapping", "query_pre_attn_scalar", "output_router_logits",
    "router_aux_loss_coef", "norm_topk_prob", "moe_layer_freq", "decoder_sparse_step", "enable_moe_block", "vision_config",
    "audio_config", "init_device", "init_fn", "init_std", "alibi", "alibi_bias_max", "block_type", "embedding_dropout",
    "residual_dropout", "flash_attention", "input_emb_norm", "precision", "scale_logits", "use_mrope",
    "router_jitter_noise", "vision_soft_tokens_per_image", "mm_tokens_per_image", "problem_type", "_name_or_path",
    "return_dict", "output_attentions", "output_hidden_states", "chunk_size_feed_forward", "id2label", "label2id",
    "hidden_size_per_layer_input", "vocab_size_per_layer_input", "use_double_wide_mlp", "audio_token_id", "video_token_id",
    "boa_token_id", "eoa_token_id", "eoa_token_index", "is_decoder", "add_cross_attention", "use_return_dict", "tokenizer_class", "prefix",
}  # fmt: skip
_MOST_UNKNOWN, _LONGEST_NAME = 16, 48  # the facts have to fit a termination message


class Fields:
    """The part of a config.json that describes the text model, on top of the whole."""

    def __init__(self, config: Mapping[str, Any], *, name: str) -> None:
        self.name = name
        self._top = config
        self._text = self.mapping(config.get("text_config"), of="text_config")
        self._all = {**config, **{key: value for key, value in self._text.items() if value is not None}}

    def get(self, key: str, default: Any = None) -> Any:
        """A field under the name it has in the file, the text model's own before the whole's; None counts as absent."""
        value = self._all.get(key)
        return default if value is None else value

    def top(self, key: str, default: Any = None) -> Any:
        """A field of the whole model."""
        value = self._top.get(key)
        return default if value is None else value

    def mapping(self, value: Any, *, of: str) -> Mapping[str, Any]:
        """A value that must be an object, empty when it is absent. Raises InspectError naming the field it is `of`."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise InspectError(f"{self.name}: {of} is {value!r:.80}, not an object")
        return value

    def integer(self, key: str, default: int | None = None) -> int | None:
        """A positive whole number under any of its names. Raises InspectError when it is something else."""
        for name in _NAMES[key]:
            value = self.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InspectError(f"{self.name}: {name} is {value!r}, not a whole number")
            return value
        return default

    def required(self, key: str) -> int:
        """The same, for a field without which there is no language model."""
        value = self.integer(key)
        if not value:
            raise InspectError(
                f"{self.name} has no {' or '.join(_NAMES[key])}: it does not describe a language model that is known here"
            )
        return value

    def unknown(self) -> tuple[str, ...]:
        """Names that are in none of the lists above."""
        known = _READ_ELSEWHERE | _NO_MEMORY | {name for names in _NAMES.values() for name in names}
        names = sorted({*self._top, *self._text} - known)
        return tuple(name[:_LONGEST_NAME] for name in names[:_MOST_UNKNOWN])
