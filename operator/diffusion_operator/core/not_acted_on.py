"""Which fields a user set that this release stores and does not act on."""

from collections.abc import Iterator

from diffusion_operator.api.base import NOT_YET, ApiModel
from diffusion_operator.api.models import DiffusionModelSpec


def not_acted_on(spec: DiffusionModelSpec) -> tuple[str, ...]:
    """Paths below spec, such as `rollout.gates`, sorted."""
    return tuple(sorted(_marked_fields(spec, prefix="")))


def _marked_fields(part: ApiModel, *, prefix: str) -> Iterator[str]:
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if value is None:
            continue
        path = f"{prefix}{field.alias or name}"
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.keys() >= NOT_YET.keys():
            yield path
        elif isinstance(value, ApiModel):
            yield from _marked_fields(value, prefix=f"{path}.")
