"""Each reason is documented once, with what to do."""

from diffusion_operator.api.conditions import REASONS, TYPE_MEANS, ConditionType
from diffusion_operator.api.docs import conditions_page


def test_every_reason_is_on_the_page_under_its_condition() -> None:
    page = conditions_page()
    for type_ in ConditionType:
        section = page.split(f"## {type_}\n", 1)[1].split("\n## ", 1)[0]
        assert TYPE_MEANS[type_] in section
        rows = [tuple(line.split(" | ")[:2]) for line in section.splitlines() if line.startswith("| ")][1:]
        assert rows == [(f"| {reason.status}", f"`{reason.name}`") for reason in REASONS if reason.type == type_]


def test_a_reason_is_one_per_condition() -> None:
    named = [(reason.type, reason.name) for reason in REASONS]
    assert len(named) == len(set(named))


def test_what_needs_a_person_says_what_to_do() -> None:
    for reason in REASONS:
        assert reason.means.endswith(".")
        assert reason.remedy.endswith(".")
