"""Every value is documented, has a schema, and does something."""

import json

import pytest
import yaml

from charts import values_table
from tests.chart.chart import CHART, EVERYTHING, HelmError, render

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
DOCUMENTED = values_table.table((CHART / "values.yaml").read_text())
FULL = yaml.safe_load(EVERYTHING.read_text())


def at(values: dict, path: str) -> object:
    """The value at a dotted path; KeyError when it is not there."""
    for part in path.split("."):
        values = values[part]
    return values


def test_the_readme_has_the_table_of_the_values_as_they_are_now():
    readme = (CHART / "README.md").read_text()
    assert values_table.readme(readme, DOCUMENTED) == readme, "run: python charts/values_table.py"


def test_a_value_without_a_comment_is_found():
    with pytest.raises(ValueError, match=r"gateway\.replicas has no comment"):
        values_table.table("# -- Documented.\nname: a\ngateway:\n  replicas: 2\n")


def test_every_property_of_the_schema_is_a_value():
    schema = json.loads((CHART / "values.schema.json").read_text())

    def resolved(node: dict) -> dict:
        return schema["$defs"][node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node

    def check(node: dict, values: dict, path: str) -> None:
        for name, child in resolved(node).get("properties", {}).items():
            if path == "" and name == "global":
                continue
            assert name in values, f"the schema knows {path}{name}, values.yaml does not"
            # A value whose default is an example of many, such as resources, is one value.
            if f"{path}{name}" not in {row.path for row in DOCUMENTED} and isinstance(values[name], dict):
                check(child, values[name], f"{path}{name}.")

    check(schema, DEFAULTS, "")


def test_the_schema_says_what_each_value_may_be():
    """A nonsense type is refused for each value, so none slips through unchecked."""
    with pytest.raises(HelmError) as refused:
        render({row.path: {"nonsense": ["", 1]} for row in DOCUMENTED})
    unchecked = [row.path for row in DOCUMENTED if f"at '/{row.path.replace('.', '/')}" not in str(refused.value)]
    assert unchecked == []


@pytest.mark.parametrize("path", [row.path for row in DOCUMENTED])
def test_every_value_changes_what_is_rendered(path: str):
    changed = at(FULL, path)
    assert changed != at(DEFAULTS, path), f"{path} has its default in everything.yaml"

    # A node port is refused without the type of Service that has one.
    if path == "gateway.service.nodePort" or render({path: changed}) == render():
        # It matters together with others: take it away from where all are set.
        assert render(files=(EVERYTHING,)) != render({path: at(DEFAULTS, path)}, files=(EVERYTHING,))
