"""`sluice-demo broker`."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from sluice.kafka.embedded_broker import free_ports
from sluice_demo.__main__ import main
from tests.unit.kafka.broker_tools import visible


@pytest.mark.kafka
def test_a_broker_runs_until_it_is_asked_to_end():
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "sluice_demo", "broker", f"--port={port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said == f"a broker runs at 127.0.0.1:{port}; Ctrl-C ends it and removes its records\n"
        kafka = {"bootstrap.servers": f"127.0.0.1:{port}"}
        producer = Producer(kafka)
        producer.produce("orders", b"1", partition=0)
        assert producer.flush(30) == 0
        assert [message.value() for message in visible(kafka, "orders", 0)] == [b"1"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.kafka
def test_a_port_that_another_program_has_is_refused(broker):
    port = broker.rpartition(":")[2]
    done = CliRunner().invoke(main, ["broker", f"--port={port}"])
    assert done.exit_code == 3
    assert f"another program has port {port}" in done.output
