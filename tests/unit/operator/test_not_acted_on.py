"""Fields that a release stores and does not act on yet."""

from diffusion_operator.api import spec
from diffusion_operator.api.base import NOT_YET
from diffusion_operator.core.not_acted_on import not_acted_on
from pydantic import Field

from tests.unit.operator.builders import a_model


class Routing(spec.Routing):
    """With a field of a release to come."""

    mirror: str | None = Field(default=None, json_schema_extra=NOT_YET, description="Where copies go.")


def test_they_are_listed_by_path() -> None:
    asked = a_model().spec.model_copy(update={"routing": Routing(mirror="shadow")})
    assert not_acted_on(asked) == ("routing.mirror",)
    assert not_acted_on(asked.model_copy(update={"routing": Routing()})) == ()
