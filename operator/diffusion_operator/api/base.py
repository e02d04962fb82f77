"""What all parts of the resource share: camelCase on the wire, immutable in memory."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A part of the resource.

    Unknown fields are dropped, not refused: the API server refuses what users misspell, and a resource that was
    written under a newer CRD must still be readable by an older operator or gateway during an upgrade.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,  # JSON has neither, but YAML does
    )

    def to_wire(self) -> dict[str, Any]:
        """JSON-ready, camelCase, without absent values."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
