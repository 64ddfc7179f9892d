"""A service goes on from checkpoints that earlier versions have written, with their file and with a changed one."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.recovery.golden_checkpoint import FOLDER, NAME, inputs, outputs, records
from tests.recovery.harness.output_reader import Record
from tests.recovery.harness.service import Place, Service
from tests.recovery.test_upgrades import alone, changed, upgrade

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

CHECKPOINTS = sorted(FOLDER.glob("*.tar.gz"))


@pytest.fixture
def own_broker() -> Iterator[dict[str, str]]:
    """All checkpoints are of a pipeline with the same name, so their topics and ledger entries have the same names."""
    with EmbeddedBroker() as embedded:
        yield {"bootstrap.servers": embedded.bootstrap}


def behind(whole: dict[Place, list[Record]], before: dict[Place, list[Record]]) -> dict[Place, list[Record]]:
    """What comes out after the outputs that came out before."""
    return {place: some[len(before.get(place, ())) :] for place, some in whole.items()}


def unpacked(services: Callable[..., Service], kafka: dict[str, str], checkpoint: Path, number: int) -> Service:
    """A service on the checkpoint, whose input topics have the records that its first batches have read."""
    text = (FOLDER / checkpoint.name.replace(".tar.gz", ".yaml")).read_text()
    service = services(text, name=NAME, kafka=kafka)
    with tarfile.open(checkpoint) as packed:
        packed.extractall(service.folder, filter="data")
    service.create(*inputs(text), partitions=1)
    service.send_all(records(number, inputs(text)))
    return service


def test_there_is_a_golden_checkpoint():
    assert CHECKPOINTS


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=lambda path: path.name)
def test_a_service_goes_on_from_it_and_then_with_a_changed_file(services, own_broker, tmp_path: Path, checkpoint: Path):
    """The ledger of then is gone, so the first start sets it to the position of the checkpoint."""
    service = unpacked(services, own_broker, checkpoint, 0)
    before, streams = service.expected(), inputs(service.text)
    assert {stream for stream, _ in before} == outputs(service.text)
    service.start("--reset-ledger")
    service.send_all(records(1, streams))
    first_part = behind(service.expected(), before)
    service.await_outputs(expected=first_part)
    service.await_rest()
    service.end()
    events, old = list(service.events), service.text
    changed(service, with_others(old))
    words = dict(line.split()[:2] for line in upgrade(service).stdout.splitlines() if line.startswith("  "))
    names = [operator["name"] for operator in yaml.safe_load(old)["operators"]]
    assert words == dict.fromkeys(names, "kept") | {"first": "removed", "sums": "new"}
    service.start("--accept")
    service.send_all(records(2, streams))
    kept = behind(alone(service, tmp_path / "kept", old, service.events), before)
    of_first = behind(alone(service, tmp_path / "first", old, events), before)
    fresh = alone(service, tmp_path / "fresh", service.text, service.events[len(events) :])
    wanted = {place: some for place, some in kept.items() if place[0] != "first"}
    wanted |= {place: some for place, some in of_first.items() if place[0] == "first"}
    wanted |= {place: some for place, some in fresh.items() if place[0] == "sums"}
    service.await_outputs(expected=wanted)
    service.end()


def with_others(text: str) -> str:
    """The pipeline file without the operator `first`, and with a new one."""
    file = yaml.safe_load(text)
    file["streams"]["sums"] = file["streams"].pop("first")
    (tens,) = (one for one in file["operators"] if one["name"] == "tens")
    file["operators"] = [one for one in file["operators"] if one["name"] != "first"]
    file["operators"].append(tens | {"name": "sums", "output": {"sums": {"k": "Last(k)", "s": "Sum(v)"}}})
    return str(yaml.safe_dump(file, sort_keys=False))
