import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.kafka.report import Entry, Report
from service.ops.metrics import TABLE, Metrics


def samples(metrics):
    """name and labels -> value."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


@pytest.fixture
def metrics():
    return Metrics("flights", "1.2.3")


def entry(batch, skipped=0, **counts):
    return Entry("flights", "id", batch, 1_700_000_000_500, skipped, Report(**counts))


def test_records_are_counted_from_the_ledgers_entries(metrics):
    metrics.batch_written(entry(3, read={"in": {"tuple": 5, "window": 1}}, dead_letters={"in": {"not JSON": 2}}))
    metrics.batch_written(entry(4, skipped=1, read={"in": {"tuple": 1}}, written={"out": {"tuple": 7}}))
    found = samples(metrics)
    assert found["sluice_records_read_total", ("kind", "tuple"), ("stream", "in")] == 6
    assert found["sluice_records_read_total", ("kind", "window"), ("stream", "in")] == 1
    assert found["sluice_records_written_total", ("kind", "tuple"), ("stream", "out")] == 7
    assert found["sluice_dead_letters_total", ("reason", "not JSON"), ("stream", "in")] == 2
    assert found["sluice_batches_total",] == 2
    assert found["sluice_batches_skipped_total",] == 1
    assert found["sluice_last_batch",] == 4
    assert found["sluice_last_batch_timestamp_seconds",] == 1_700_000_000.5


def test_batches_are_timed_and_lag_is_shown_by_topic_partition(metrics):
    metrics.batch_ended(0.25)
    metrics.lag({("trades", 0): 7, ("trades", 1): 0})
    found = samples(metrics)
    assert found["sluice_batch_duration_seconds_bucket", ("le", "0.3")] == 1
    assert found["sluice_batch_duration_seconds_bucket", ("le", "0.2")] == 0
    assert found["sluice_lag_records", ("topic", "trades"), ("topic_partition", "0")] == 7


def test_the_build_is_named(metrics):
    assert samples(metrics)["sluice_build_info", ("pipeline", "flights"), ("version", "1.2.3")] == 1


def test_two_services_in_one_process_do_not_share_counts(metrics):
    metrics.batch_written(entry(0))
    assert samples(Metrics("other", "1"))["sluice_batches_total",] == 0


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_names_follow_prometheus_conventions(metric):
    assert metric.name.startswith("sluice_")
    assert metric.name.endswith("_total") == (metric.type.__name__ == "Counter")
    assert metric.help.endswith(".")
