"""The whole resource, as the API server stores it."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .base import ApiModel
from .spec import DiffusionModelSpec
from .status import DiffusionModelStatus


class ManagedFields(ApiModel):
    """Which fields a program wrote last, and when."""

    manager: str = ""
    time: str = ""
    fields_v1: dict[str, Any] = Field(default_factory=dict, alias="fieldsV1")


class ObjectMeta(ApiModel):
    """The part of metadata that we read."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int = 1
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    managed_fields: list[ManagedFields] = Field(default_factory=list)


class DiffusionModel(ApiModel):
    """A `DiffusionModel` with its status."""

    metadata: ObjectMeta
    spec: DiffusionModelSpec
    status: DiffusionModelStatus = Field(default_factory=DiffusionModelStatus)


class StatusOnly(BaseModel):
    """A resource of which only the status is of interest, such as one whose spec this release cannot read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    metadata: ObjectMeta
    status: DiffusionModelStatus = Field(default_factory=DiffusionModelStatus)


def parse(resource: dict[str, Any]) -> DiffusionModel:
    """Read a resource as the API server returns it.

    Raises:
        pydantic.ValidationError: a field is not what this release understands.
    """
    return DiffusionModel.model_validate(resource)
