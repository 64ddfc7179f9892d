"""Classes that Java loads before a session needs them."""

from __future__ import annotations

import logging

import pytest

from sluice.kafka.embedded_broker import free_ports
from sluice.spark.java.early_classes import CLASSES, load_early


@pytest.mark.spark
def test_spark_has_these_classes(spark):
    jvm = spark.sparkContext._jvm  # noqa: SLF001
    assert [jvm.java.lang.Class.forName(name).getName() for name in CLASSES] == [*CLASSES]


def test_a_java_that_ends_meanwhile_is_no_error(caplog):
    caplog.set_level(logging.DEBUG, logger="sluice.spark")
    (port,) = free_ports(1)
    load_early(port, "open")
    assert [(one.name, one.levelname) for one in caplog.records] == [("sluice.spark", "DEBUG")]
