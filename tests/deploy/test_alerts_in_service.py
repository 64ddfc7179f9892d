"""An alert about a service whose broker really stops answering."""

from __future__ import annotations

import sys

import pytest

from sluice.files import project_file
from sluice.kafka.embedded_broker import EmbeddedBroker, free_ports
from sluice.ops.pipelines import BATCH_VARIABLE
from sluice.processes import ChildProcess
from sluice_demo.play_command import play_flights
from tests.deploy.prometheus_server import Prometheus, await_

BOUND = 10
FIRING = 'count(ALERTS{alertname="SluiceBatchHangs",alertstate="firing"}) or vector(0)'
BATCHES = "sum(sluice_batches_total)"


@pytest.mark.prometheus
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_a_broker_that_stands_still_is_an_alert_until_it_goes_on(tmp_path):
    serving, asking = free_ports(2)
    log = tmp_path / "service.log"
    with EmbeddedBroker() as broker:
        kafka = {"bootstrap.servers": broker.bootstrap}
        play_flights(kafka, "flights", 4, 2, None)
        running = ChildProcess(
            [
                *(sys.executable, "-m", "sluice", "run", str(project_file("examples/flights.yaml"))),
                *(f"--kafka=bootstrap.servers={broker.bootstrap}", f"--http-port={serving}"),
                f"--checkpoint={tmp_path / 'checkpoint'}",
            ],
            folder=tmp_path,
            log=log,
            environment={BATCH_VARIABLE: str(BOUND)},
        )
        try:
            prometheus = Prometheus(tmp_path, serving, asking)
            try:
                await_(lambda: prometheus.value(BATCHES) >= 1, log.read_text)
                await_(lambda: prometheus.value(FIRING) == 0, log.read_text)
                broker.freeze()
                await_(lambda: prometheus.value(FIRING) == 1, log.read_text)
                broker.thaw()
                await_(lambda: prometheus.value(FIRING) == 0, log.read_text)
                before = prometheus.value(BATCHES)
                play_flights(kafka, "flights", 4, 2, None)
                await_(lambda: prometheus.value(BATCHES) > before, log.read_text)
            finally:
                prometheus.stop()
        finally:
            running.terminate(30)
