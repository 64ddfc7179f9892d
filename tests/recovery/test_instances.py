"""Two services on one checkpoint: the second is refused as long as the first lives."""

from __future__ import annotations

import os
import signal

import pytest

from tests.recovery.checkpoint_service import Running

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def test_an_idle_service_keeps_others_from_its_checkpoint_until_it_is_killed(broker, tmp_path):
    one = Running(broker, tmp_path)
    one.send(50)
    first = one.start()
    first.wait_until(one.complete)

    second = one.start()
    assert second.exit_code() == 5
    last = second.log().splitlines()[-1]
    assert "another instance of the pipeline" in last
    assert f"process {first.pid} on " in last

    one.send(10)
    first.wait_until(one.complete)  # it goes on, undisturbed
    os.kill(first.pid, signal.SIGKILL)
    one.send(10)
    one.until_complete()
    first.kill()
    assert one.outputs() == one.expected()
