"""docs/types.md: its tables, which test_recipes.py compares, have all types, and its example is right."""

from __future__ import annotations

import re

from sluice.config.load import load_text
from sluice.files import project_file
from sluice.model.types import TYPES, parse_type
from tests.docs.type_tables import TABLES, VALUES

PAGE = project_file("docs/types.md").read_text(encoding="utf-8")
OPERATOR = """
  counts: {topic: counts}
operators:
  - name: count
    aggregate: orders
    window: tumbling, count(2), partitioned
    partition_by: [customer.id]
    output: {counts: {customer: customer.id, orders: Count()}}
"""


def test_each_type_has_a_value_in_the_tables():
    assert {type(row) for row in TYPES} == {type(parse_type(word)) for word in VALUES}


def test_the_page_has_each_table():
    assert re.findall(r"<!-- types: (\w+) -->", PAGE) == list(TABLES)


def test_the_example_is_a_schema_and_members_are_keys():
    streams = re.findall(r"```yaml\n(streams:.*?)```", PAGE, re.DOTALL)
    assert [
        len(load_text(f"pipeline: p\n{text}{OPERATOR}", "p.yaml", environment=None).operators) for text in streams
    ] == [1]
