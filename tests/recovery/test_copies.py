"""Two copies of a checkpoint that part: what one of them wrote is neither lost nor doubled by the other."""

from __future__ import annotations

import shutil

import pytest

from service.kafka import ledger
from service.spark import offsets
from service.spark.checkpoint import batches
from tests.recovery.running import Running

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def test_a_copy_that_planned_its_next_batch_otherwise_is_refused(broker, tmp_path):
    """Both have planned a batch of the same number; one of them has written it."""
    one, other = Running(broker, tmp_path), tmp_path / "other"
    one.send(50)
    one.until_complete()
    shutil.copytree(one.checkpoint, other)
    one.send(10)
    one.until_planned(other)
    one.send(50)
    one.until_complete()
    number = batches(other)[1]
    assert offsets.digest(other, number) != offsets.digest(one.checkpoint, number)
    assert ledger.read_stand(one.kafka, one.name).next_batch == number + 1

    process = one.start(other)
    assert process.exit_code() == 4
    last = process.log().splitlines()[-1]
    assert f"batch {number} read other records than the checkpoint has planned" in last
    assert "--reset-ledger" in last
    one.send(5)
    one.until_complete()
    assert one.outputs() == one.expected()
