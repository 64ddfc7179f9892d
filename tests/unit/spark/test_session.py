from __future__ import annotations

import pytest

from sluice.spark.session import repeating


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"), ("local[3]", "local[3,4]"), ("local[*]", "local[*,4]"), ("local[*,7]", "local[*,7]"),
        ("spark://there:7077", "spark://there:7077"), ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)  # fmt: skip
def test_failed_tasks_are_repeated_in_local_mode_too(master, expected):
    assert repeating(master) == expected
