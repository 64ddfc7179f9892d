"""By what an input may be spread over buckets."""

from __future__ import annotations

import pytest

from sluice.config.load import load_text
from sluice.model.spreading import spread_by

PIPELINE = """
pipeline: p
streams:
  input: {{topic: input, schema: {{k: string, g: string}}}}
  output: {{topic: output}}
operators:
  - name: o
    aggregate: input
    window: {window}, partitioned
    partition_by: [k]
    group_by: {groups}
    output: {{output: {{n: {call}}}}}
"""


@pytest.mark.parametrize(
    ("window", "groups", "call", "spread"),
    [
        ("sliding, count(2)", "[]", "Count()", True),
        ("sliding, count(2)", "[]", "CountAll()", False),
        ("sliding, time(2)", "[g]", "CountAll() - Count()", False),
        ("tumbling, count(2)", "[]", "CountAll()", True),
        ("sliding, count(2)", "[]", "CountByGroup()", False),
        ("sliding, count(2)", "[g]", "CountByGroup()", True),
    ],
)
def test_what_counts_all_partitions_needs_one_bucket(window: str, groups: str, call: str, *, spread: bool):
    pipeline = load_text(PIPELINE.format(window=window, groups=groups, call=call), "p", environment=None)
    assert (spread_by(pipeline) is not None) == spread
