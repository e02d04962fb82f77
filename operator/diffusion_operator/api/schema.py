"""pydantic's JSON schema → the structural schema that Kubernetes accepts.

Kubernetes knows a strict subset of OpenAPI 3.0, pydantic writes JSON Schema 2020-12. Where they differ we translate; a
keyword that is not listed here raises, because the API server would drop or refuse it, and a validation that silently
does not happen is worse than none.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_KEPT = frozenset(
    {
        "type",
        "description",
        "format",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxProperties",
        "required",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    }
)
# Names of classes and pydantic's defaults: noise to people, and a default would make the API server rewrite objects.
_DROPPED = frozenset({"title", "default"})
_ORDER = ("description", "type", "x-kubernetes-int-or-string", "format", "enum", "required", "properties")


class UnknownKeywordError(ValueError):
    """A model uses something that the CRD cannot express."""


def structural(model: type[BaseModel], *, with_rules: bool = True) -> Schema:
    """Structural schema of a pydantic model, with wire names.

    Without rules for what only the operator writes: it repeats parts of spec, which were checked, possibly by older rules,
    and the API server refuses a CRD whose rules might cost too much in lists.

    Raises:
        UnknownKeywordError: the model uses a feature that has no translation.
    """
    schema = model.model_json_schema(by_alias=True)
    translated = _translate(schema, definitions=schema.pop("$defs", {}), path=model.__name__)
    return translated if with_rules else _without_rules(translated)


def _without_rules(schema: Schema) -> Schema:
    """A translated schema without its CEL rules."""
    result = {keyword: value for keyword, value in schema.items() if keyword != "x-kubernetes-validations"}
    if "properties" in result:
        result["properties"] = {name: _without_rules(child) for name, child in result["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in result:
            result[keyword] = _without_rules(result[keyword])
    return result


def _translate(schema: Schema, *, definitions: Mapping[str, Schema], path: str) -> Schema:
    schema = _without_indirection(schema, definitions=definitions, path=path)
    result = _children(schema, definitions=definitions, path=path)
    for keyword, value in schema.items():
        match keyword:
            case "const":
                result["enum"] = [value]
            case "exclusiveMinimum":  # a number in JSON Schema, a flag beside minimum in OpenAPI 3.0
                result |= {"minimum": value, "exclusiveMinimum": True}
            case _ if keyword in _KEPT:
                result.setdefault(keyword, value)
            case _ if keyword not in _DROPPED | result.keys():
                raise UnknownKeywordError(
                    f"{path}: the CRD generator does not know {keyword!r} ({value!r}): teach it, or write the field "
                    f"otherwise"
                )
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    if "type" not in result and not result.get("x-kubernetes-int-or-string"):
        raise UnknownKeywordError(f"{path}: has no type")
    return {keyword: result[keyword] for keyword in (*_ORDER, *sorted(result)) if keyword in result}


def _children(schema: Schema, *, definitions: Mapping[str, Schema], path: str) -> Schema:
    children: Schema = {}
    if "properties" in schema:
        children["properties"] = {
            name: _translate(child, definitions=definitions, path=f"{path}.{name}")
            for name, child in schema["properties"].items()
        }
    if "items" in schema:
        children["items"] = _translate(schema["items"], definitions=definitions, path=f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        values = schema["additionalProperties"]
        children["additionalProperties"] = _translate(values, definitions=definitions, path=f"{path}.*")
    return children


def _without_indirection(schema: Schema, *, definitions: Mapping[str, Schema], path: str) -> Schema:
    """Replace `$ref` and `X | None` by what they stand for. Outer keywords win; rules of both apply."""
    while "$ref" in schema or "anyOf" in schema:
        outer = {keyword: value for keyword, value in schema.items() if keyword not in {"$ref", "anyOf"}}
        if "$ref" in schema:
            inner = definitions[schema["$ref"].removeprefix("#/$defs/")]
        else:
            variants = [variant for variant in schema["anyOf"] if variant != {"type": "null"}]
            if outer.get("x-kubernetes-int-or-string"):
                # Which numbers and words are allowed stands in its rules: a structural schema has no types in anyOf.
                inner = {}
            elif len(variants) == 1:
                inner = variants[0]
            else:
                raise UnknownKeywordError(
                    f"{path}: a union of {len(variants)} types has no structural schema; mark it int-or-string or "
                    f"split it"
                )
        rules = [*inner.get("x-kubernetes-validations", ()), *outer.get("x-kubernetes-validations", ())]
        schema = inner | outer | ({"x-kubernetes-validations": rules} if rules else {})
    return schema
