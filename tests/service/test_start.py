"""What stops the service before it starts."""

from __future__ import annotations

import pytest

from sluice.checkpoint.checkpoint_identity import FILE, CheckpointError
from sluice.kafka.kafka_errors import TopicError
from sluice.spark.query import prepare

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64}}
  out: {}
operators:
  - {name: one, map: in, output: [out]}
"""


def test_a_missing_input_topic(service):
    with pytest.raises(TopicError, match="no such topic"):
        prepare(service.pipeline(PIPELINE))


def test_another_pipelines_checkpoint(service):
    service.create("in")
    prepare(service.pipeline(PIPELINE))
    with pytest.raises(CheckpointError, match="has changed since it was made, and the service cannot go on with it"):
        prepare(service.pipeline(f"{PIPELINE}clock: records\n"))


def test_a_damaged_checkpoint(service):
    service.create("in")
    plan = prepare(service.pipeline(PIPELINE))
    (service.folder / "checkpoint" / FILE).write_text(plan.query)
    with pytest.raises(CheckpointError, match="cannot be read"):
        prepare(service.pipeline(PIPELINE))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark leaves sockets open
def test_a_lost_checkpoint(service):
    """It is restored from the ledger and the input topics: nothing is written again."""
    service.create("in")
    for number in range(2):
        service.send("in", [{"value": b'{"key": "a", "number": %d}' % number}])
        service.run(service.pipeline(PIPELINE + f"checkpoint: {service.folder}/{number}\n"))
    assert [output["tuple"]["number"] for output in service.outputs("out")] == [0, 1]


def test_a_lost_checkpoint_of_another_file(service):
    """The ledger has the fingerprint of the file for which the checkpoint was made."""
    service.create("in")
    service.send("in", [{"value": b'{"key": "a", "number": 1}'}])
    service.run(service.pipeline(PIPELINE))
    changed = PIPELINE.replace("output: [out]", "where: number > 1, output: [out]")
    lost = service.pipeline(changed + f"checkpoint: {service.folder}/another\n")
    with pytest.raises(CheckpointError, match="has changed") as refused:
        prepare(lost)
    assert "--reset-ledger" in str(refused.value)
    prepare(lost, reset_ledger=True)


def test_a_checkpoint_goes_on_where_it_was(service):
    service.create("in")
    for number in range(3):
        service.send("in", [{"value": b'{"key": "a", "number": %d}' % number}])
        service.run(service.pipeline(PIPELINE))
    assert [output["tuple"]["number"] for output in service.outputs("out")] == [0, 1, 2]
