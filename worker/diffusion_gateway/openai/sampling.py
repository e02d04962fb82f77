"""The parameters that have a form of their own: sampler, logit_bias, workload, the seeds of choices."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from diffusion_worker.config import SamplerSettings
from diffusion_worker.wire import MAX_BIASED_TOKENS
from pydantic import ValidationError

from ..workload import Workload
from .errors import invalid_parameter
from .validation import first_fault, shortened

_MAX_BIAS = 100.0


def read_sampler(value: Any) -> SamplerSettings:
    """Settings for a diffusion arm, or null. Raises `ApiError` naming the field, such as sampler.max_denoising_steps."""
    if value is None:
        return SamplerSettings()
    if not isinstance(value, dict):
        raise invalid_parameter("sampler", f"sampler={shortened(value)} must be an object, such as {{'top_p': 0.9}}.")
    try:
        # As JSON, where strict still takes names for enums: "12" is no number here, as nowhere in this API.
        return SamplerSettings.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise first_fault(error, within="sampler") from None


def read_logit_bias(value: Any) -> Mapping[int, float]:
    """From token ids, which JSON spells as strings, to numbers from -100 to 100; or null."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid_parameter("logit_bias", "logit_bias must be an object from token ids to numbers.")
    if len(value) > MAX_BIASED_TOKENS:
        raise invalid_parameter(
            "logit_bias", f"logit_bias has {len(value)} tokens; at most {MAX_BIASED_TOKENS} are allowed."
        )
    for token, bias in value.items():
        if not (token.isascii() and token.isdigit() and int(token) < 2**31):
            raise invalid_parameter("logit_bias", f"logit_bias has {shortened(token)}, which is no token id.")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not abs(bias) <= _MAX_BIAS:
            raise invalid_parameter(
                "logit_bias", f"logit_bias[{token}]={shortened(bias)} is not allowed: give a number from -100 to 100."
            )
    return {int(token): float(bias) for token, bias in value.items()}


def read_workload(value: Any, *, param: str = "workload") -> Workload | None:
    """What kind of work it is, or null. `param`: where it was said. Raises `ApiError`."""
    if value is None:
        return None
    try:
        return Workload(value)
    except ValueError:
        known = ", ".join(Workload)
        raise invalid_parameter(
            param, f"{param}={shortened(value)} is no kind of work; give one of {known}, or leave it out."
        ) from None


def seed_of_choice(seed: int, index: int) -> int:
    """The seed of a choice: the request's own for the first, so that it is the answer that n=1 gives."""
    if index == 0:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:6])
