"""A service whose machine loses power, with `durability: machine`: what the disk has is enough to go on.

The inputs are deleted before the new start, so nothing can come from there; the outputs equal those of an undisturbed
run, each once.
"""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.recovery.harness.one_window import ONE_WINDOW
from tests.recovery.harness.power_loss import lose_power
from tests.recovery.harness.service import TOPIC_PARTITIONS, Service

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
max_records_per_batch: 40
clock: records
durability: {durability}
direct_records: {direct}
"""


def without_power(services, moment: str, durability: str, direct: int = 0) -> Service:
    """A service that has lost power at the moment, in its second hundred of records; the input has no older records."""
    service = services(PIPELINE.format(durability=durability, direct=direct) + ONE_WINDOW)
    service.create("in")
    journal = service.folder / "forced"
    journal.touch()
    service.start(SLUICE_TEST_FORCED=str(journal))
    send(service)
    service.await_outputs()
    service.at(moment)
    send(service)
    service.await_moment(moment)
    service.kill()
    delete_read_records(service)
    assert lose_power(service.checkpoint, journal), "some files were not forced to the disk"
    return service


def send(service: Service) -> None:
    first = len(service.events)
    service.send("in", [{"k": f"key {n % 7}", "v": n} for n in range(first, first + 100)])


def delete_read_records(service: Service) -> None:
    """Those of all batches that the ledger has."""
    admin = AdminClient(service.kafka)
    topic, plan = service.topic("in"), service.last_plan()
    ends = [TopicPartition(topic, place, plan[topic, place]) for place in range(TOPIC_PARTITIONS)]
    for deleted in admin.delete_records(ends).values():
        deleted.result()


@pytest.mark.slow
@pytest.mark.parametrize("direct", [0, 40])
@pytest.mark.parametrize("moment", ["feeding", "produced", "written"])
def test_k13_a_folder_that_is_the_only_copy_survives_a_loss_of_power(services, moment, direct):
    service = without_power(services, moment, "machine", direct)
    service.start()
    service.await_outputs()
    service.end()


@pytest.mark.slow
def test_k11_without_durability_the_start_says_what_is_missing(services):
    service = without_power(services, "written", "process")
    service.start()
    assert service.await_end() == 4
    assert "but Kafka has deleted those before offset" in service.sentence
