"""Two services on one checkpoint: the second is refused as long as the first runs."""

from __future__ import annotations

import pytest

from tests.recovery.harness.process_table import send_signal
from tests.recovery.harness.sums_and_runs import FILE, tuples

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def test_e15_an_idle_service_keeps_others_from_its_checkpoint_until_it_is_killed(services):
    first = services(FILE)
    first.create("in")
    first.send("in", tuples(50))
    first.start()
    first.await_outputs()

    second = services(FILE, name=first.name, checkpoint=first.checkpoint)
    second.start()
    assert second.await_end() == 5
    assert "another instance of the pipeline" in second.sentence
    assert f"process {first.pid} on " in second.sentence

    first.send("in", tuples(10))
    first.await_outputs()  # it goes on, undisturbed
    send_signal([first.pid])
    second.adopt(first)
    second.send("in", tuples(10))
    second.start()
    second.await_outputs()
