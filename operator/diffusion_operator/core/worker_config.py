"""The two files a worker reads: `model.json` (our engine) and `config.pbtxt` (Triton)."""

import math

from diffusion_worker.config import EngineConfig, EngineKind, MaskCache, PlannedBytes, SamplerConfig
from diffusion_worker.wire import SCORE_PRIORITY

from diffusion_operator.api.models import ArmKind, Attention, MemoryPlan, RevisionStatus, RevisionTemplate, Sampler
from diffusion_operator.api.units import amount, seconds

from . import defaults
from .sources import Source, parse_source

MODEL_JSON = "model.json"
CONFIG_PBTXT = "config.pbtxt"


def files(model: str, revision: RevisionStatus) -> dict[str, str]:
    """Text of the files by name."""
    config = engine_config(model, revision)
    return {
        # Without what says nothing: workers of a revision made by an older operator refuse settings that are new to them.
        MODEL_JSON: config.model_dump_json(indent=2, exclude_none=True, exclude_defaults=True) + "\n",
        CONFIG_PBTXT: triton_config(revision.template),
    }


def engine_config(model: str, revision: RevisionStatus) -> EngineConfig:
    """What the engine is told."""
    template = revision.template
    source: Source = parse_source(template.model.source)
    attention = template.attention or Attention()
    memory = revision.memory
    gpus = template.resources.gpus or 0
    return EngineConfig(
        kind=EngineKind(template.kind.value),
        model=model,
        revision=revision.hash,
        source=template.model.source,
        source_revision=template.model.revision,
        path=source.path,
        dtype=template.model.dtype or "auto",
        device="cuda" if gpus else "cpu",
        threads=1 if gpus else math.ceil(amount(template.resources.cpu or defaults.CPU)),
        max_batch_size=template.limits.max_batch_size,
        max_sequence_length=template.limits.max_sequence_length,
        batch_window_seconds=seconds(template.limits.batch_window),
        sampler=_sampler(template.sampler or Sampler()),
        mask_cache=attention.mask_cache or MaskCache.PREFIX,
        full_attention_window=attention.window,
        full_attention_sink=attention.sink or 0,
        repetition_window=template.repetition_window or defaults.REPETITION_WINDOW,
        memory_budget=memory and memory.budget_bytes,
        planned=memory and _planned(memory),
    )


def _planned(memory: MemoryPlan) -> PlannedBytes:
    return PlannedBytes(weights=memory.weights, kv=memory.kv, step=memory.step, reserve=memory.reserve)


def _sampler(sampler: Sampler) -> SamplerConfig:
    temperature = sampler.temperature
    return SamplerConfig(
        name=sampler.name,
        canvas_length=sampler.canvas_length,
        max_denoising_steps=sampler.max_denoising_steps,
        schedule=sampler.schedule,
        adaptive=sampler.adaptive,
        temperature_min=temperature and temperature.min,
        temperature_max=temperature and temperature.max,
        top_p=sampler.top_p,
        guidance_scale=sampler.guidance_scale,
        deterministic=sampler.deterministic,
        stochasticity=sampler.stochasticity,
        stability_threshold=sampler.stability_threshold,
        confidence_threshold=sampler.confidence_threshold,
        entropy_bound=sampler.entropy_bound,
        accept_threshold=sampler.accept_threshold,
    )


def triton_config(template: RevisionTemplate) -> str:
    """Triton's model configuration, with fields that release 2.51 knows.

    Decoupled, because a request is answered block by block. Triton does not wait for batches to fill up: the engine
    has that window. What waits longer than the timeout, or finds the queue full, is refused at once, so that the
    gateway can turn to the fallback.
    """
    kind = "KIND_GPU" if template.resources.gpus else "KIND_CPU"
    timeout_microseconds = round(seconds(template.limits.request_timeout) * 1_000_000)
    is_ar = template.kind is ArmKind.AR
    comment = "autoregressive" if is_ar else "diffusion"
    # Scores wait in a queue of their own, as long as the other one, and never before a request for an answer.
    priorities = f"\n  priority_levels: {SCORE_PRIORITY}\n  default_priority_level: 1" if is_ar else ""
    return f"""\
# Written by diffusion-operator: {comment} arm.
name: "dlm"
backend: "dlm"
max_batch_size: {template.limits.max_batch_size}
input [ {{ name: "request" data_type: TYPE_STRING dims: [ 1 ] }} ]
output [ {{ name: "event" data_type: TYPE_STRING dims: [ 1 ] }} ]
instance_group [ {{ count: 1 kind: {kind} }} ]
model_transaction_policy {{ decoupled: true }}
dynamic_batching {{
  max_queue_delay_microseconds: 0{priorities}
  default_queue_policy {{
    timeout_action: REJECT
    default_timeout_microseconds: {timeout_microseconds}
    allow_timeout_override: true
    max_queue_size: {template.limits.queue_size}
  }}
}}
"""
