from service.spark.service import offsets_of
from service.spark.session import overrides


def test_offsets_of_a_progress_report():
    source = {"endOffset": {"a": {"0": 5, "1": 7}}, "latestOffset": {"a": {"0": 9, "1": 7}}}
    read, ends = offsets_of({"sources": [source, {"endOffset": {"pulse": 3}}]})
    assert read == {("a", 0): 5, ("a", 1): 7}
    assert ends == {("a", 0): 9, ("a", 1): 7}


def test_the_environment_sets_properties_of_spark():
    assert overrides({"SLUICE_SPARK_driver_memory": "4g", "SLUICE_JARS": "x"}) == {"spark.driver.memory": "4g"}
