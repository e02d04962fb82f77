"""The CRD generator, and what it wrote."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from diffusion_operator.api.base import ApiModel
from diffusion_operator.api.crd import CRD_PATH, crd_yaml, definition, generated_files, main
from diffusion_operator.api.schema import UnknownKeywordError, structural
from kubernetes.client import V1CustomResourceDefinition
from pydantic import Field

REPOSITORY = Path(__file__).parents[3]


def walk(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every schema below this one, with its path."""
    found = [(path, schema)]
    for name, child in schema.get("properties", {}).items():
        found += walk(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            found += walk(schema[keyword], f"{path}[]")
    return found


SCHEMA = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_what_is_committed_is_what_the_models_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", f"--root={REPOSITORY}"]) == 0, capsys.readouterr().out


def test_check_names_what_is_not_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--root={tmp_path}"]) == 0
    assert main(["--check", f"--root={tmp_path}"]) == 0
    (tmp_path / CRD_PATH).write_text("other")
    capsys.readouterr()
    assert main(["--check", f"--root={tmp_path}"]) == 1
    assert str(CRD_PATH) in capsys.readouterr().out
    assert (tmp_path / CRD_PATH).read_text() == "other"


def test_kubernetes_knows_every_keyword() -> None:
    V1CustomResourceDefinition.model_validate(definition())


def test_it_is_far_from_the_limit_of_client_side_apply() -> None:
    assert len(crd_yaml()) < 100_000
    assert len(json.dumps(definition())) < 100_000


def test_it_has_no_anchors() -> None:
    assert "&id" not in crd_yaml()
    assert yaml.safe_load(crd_yaml()) == definition()


def test_every_field_reads_like_documentation() -> None:
    for path, schema in walk(SCHEMA):
        if path and not path.endswith("[]") and path != ".metadata":
            description = schema.get("description", "")
            assert description.endswith("."), f"{path}: {description!r}"


def test_no_default_would_rewrite_a_resource() -> None:
    assert [path for path, schema in walk(SCHEMA) if "default" in schema] == []


def test_every_object_says_its_fields() -> None:
    """Fields that the schema does not name are pruned by the API server, silently."""
    for path, schema in walk(SCHEMA):
        if schema.get("type") == "object" and path != ".metadata":
            assert "properties" in schema or "additionalProperties" in schema, path


def test_rules_are_bounded_in_cost() -> None:
    """The API server refuses a rule on a string of any length."""
    for path, schema in walk(SCHEMA):
        if "x-kubernetes-validations" in schema and schema.get("type") == "string":
            assert "maxLength" in schema, path


def test_status_repeats_no_rule_of_spec() -> None:
    assert [p for p, s in walk(SCHEMA["properties"]["status"]) if "x-kubernetes-validations" in s] == []


def test_the_reference_pages_name_every_field_of_spec() -> None:
    page = next(text for path, text in generated_files().items() if path.name == "diffusionmodel.md")
    missing = [p for p, _ in walk(SCHEMA["properties"]["spec"]) if p and f"`{p[1:].replace('[].', '.')}`" not in page]
    assert [path for path in missing if "[]" not in path] == []


class Inner(ApiModel):
    """An inner part."""

    size: int = Field(gt=0, description="How big.")


class Known(ApiModel):
    """What the generator can do."""

    inner: Inner | None = Field(default=None, description="The outer words win.")
    word: Literal["only"] = Field(description="One word.")
    table: dict[str, Annotated[str, Field(max_length=3)]] | None = Field(default=None, description="By name.")


def test_references_optionals_constants_and_bounds_are_translated() -> None:
    assert structural(Known) == {
        "description": "What the generator can do.",
        "type": "object",
        "required": ["word"],
        "properties": {
            "inner": {
                "description": "The outer words win.",
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"description": "How big.", "type": "integer", "exclusiveMinimum": True, "minimum": 0}
                },
            },
            "word": {"description": "One word.", "type": "string", "enum": ["only"]},
            "table": {
                "description": "By name.",
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 3},
            },
        },
    }


class AUnion(ApiModel):
    """A union."""

    value: int | str = Field(description="Either.")


class ASet(ApiModel):
    """A set."""

    values: set[str] = Field(description="Some.")


class ATuple(ApiModel):
    """A tuple."""

    pair: tuple[int, str] = Field(description="Both.")


class Anything(ApiModel):
    """Anything."""

    value: Any = Field(description="Whatever.")


@pytest.mark.parametrize("model", [AUnion, ASet, ATuple, Anything])
def test_what_has_no_translation_is_refused_with_its_path(model: type[ApiModel]) -> None:
    with pytest.raises(UnknownKeywordError, match=rf"{model.__name__}\.(value|values|pair)"):
        structural(model)
