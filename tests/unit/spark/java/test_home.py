"""Where Spark's Python processes find PySpark."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from sluice.spark.java import home


def test_the_home_has_what_java_needs_and_no_archive_of_pyspark(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    found = home.spark_home()
    assert (found / "bin" / "spark-submit").exists()
    assert list((found / "jars").glob("spark-core_*.jar"))
    assert not (found / "python").exists()
    assert home.spark_home() == found


def test_links_to_a_package_that_is_gone_are_made_anew(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = tmp_path / "share" / "sluice" / "spark"
    folder.mkdir(parents=True)
    (folder / "jars").symlink_to(tmp_path / "gone")
    assert home.spark_home() == folder
    assert (folder / "jars").resolve() == Path(pyspark.__file__).resolve().parent / "jars"


def test_where_nothing_can_be_written_the_package_is_the_home(tmp_path: Path, monkeypatch):
    (tmp_path / "share").write_text("a file where a folder should be")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert home.spark_home() == Path(pyspark.__file__).parent


@pytest.mark.spark
def test_workers_import_the_installed_package(spark):
    """The one that this process has."""
    (found,) = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert found == pyspark.__file__
