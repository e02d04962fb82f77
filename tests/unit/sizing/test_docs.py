"""The page about sizing."""

from tests.unit.sizing.docs_table import PAGE, with_tables


def test_the_tables_are_what_the_planner_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run python -m tests.unit.sizing.docs_table"
