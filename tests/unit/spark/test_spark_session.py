from __future__ import annotations

import pytest
from pyspark import SparkContext

from sluice.jvm.java import JavaError
from sluice.spark.cluster import repeating
from sluice.spark.spark_session import session


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"), ("local[3]", "local[3,4]"), ("local[*]", "local[*,4]"), ("local[*,7]", "local[*,7]"),
        ("spark://there:7077", "spark://there:7077"), ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)  # fmt: skip
def test_failed_tasks_are_repeated_in_local_mode_too(master, expected):
    assert repeating(master) == expected


def test_no_java_is_named_where_spark_does_not_start(spark_submit, monkeypatch):
    spark_submit("exit 1")
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(JavaError, match="JAVA_HOME is /nowhere, which has no bin/java"):
        session("tests", "local[1]")
