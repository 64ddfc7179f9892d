"""A damaged checkpoint is never taken for a good one: the service goes on from what is whole, or ends with code 4."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from sluice.checkpoint.checkpoint_identity import FILE
from sluice.cli import main
from tests.recovery.checkpoint_service import Running
from tests.unit.state.damage import flip

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

RECORDS = 1500


@pytest.fixture(scope="module")
def ended(broker, tmp_path_factory):
    """A service that has read some records and has ended."""
    one = Running(broker, tmp_path_factory.mktemp("ended"))
    one.send(RECORDS)
    one.until_complete()
    return one


@pytest.fixture
def checkpoint(ended, tmp_path):
    """A copy of its checkpoint, to damage."""
    return shutil.copytree(ended.checkpoint, tmp_path / "copy")


def snapshots(checkpoint):
    """The newest first."""
    return sorted((checkpoint / "buckets" / "0").glob("*.state"), key=lambda path: -int(path.stem))


def half(path):
    return path.stat().st_size // 2


def test_the_service_goes_on_from_an_older_snapshot_and_says_so(broker, tmp_path):
    one = Running(broker, tmp_path)
    one.send(RECORDS)
    one.until_complete()
    newest = snapshots(one.checkpoint)[0]
    flip(newest, half(newest))
    one.send(300)
    log = one.until_complete()
    assert one.outputs() == one.expected()
    (line,) = [line for line in log.splitlines() if "is damaged" in line]
    assert "level=warning" in line
    assert f"{newest}: block 0 (bytes " in line


def test_where_nothing_whole_leads_to_the_state_the_service_ends_with_code_4(ended, checkpoint):
    """The snapshots, and the logs behind them."""
    for file in (checkpoint / "buckets" / "0").iterdir():
        flip(file, half(file))
    ended.send(10)  # the state is made again for the next batch
    process = ended.start(checkpoint)
    assert process.exit_code() == 4
    last = process.log().splitlines()[-1]
    assert last.startswith(f"sluice: {snapshots(checkpoint)[0]}: block 0 (bytes ")
    assert "is damaged; " in last


@pytest.mark.parametrize("name", ["metadata", "commits", "offsets", "sources/0/0", FILE])
def test_a_damaged_file_beside_the_state_ends_it_with_code_4(ended, checkpoint, name):
    file = checkpoint / name
    if file.is_dir():
        file = max((one for one in file.iterdir() if one.name.isdigit()), key=lambda one: int(one.name))
    flip(file, half(file))
    process = ended.start(checkpoint)
    assert process.exit_code() == 4
    assert "Traceback" not in process.log()
    assert "py4j" not in process.log().lower()
    last = process.log().splitlines()[-1]
    assert (str(file) if name != FILE else FILE) in last
    assert "damaged" in last or "cannot be read" in last


def test_readers_of_the_checkpoint_say_the_same(ended, checkpoint):
    newest = snapshots(checkpoint)[0]
    command = ["windows", str(ended.file), "--key", "key 3", "--checkpoint", str(checkpoint)]
    whole = CliRunner().invoke(main, command)
    assert whole.exit_code == 0
    assert len(json.loads(whole.stdout)["held"]) == 30

    flip(newest, half(newest))
    again = CliRunner().invoke(main, command)
    assert (again.exit_code, again.stdout) == (0, whole.stdout)

    for file in (checkpoint / "buckets" / "0").iterdir():
        if file != newest:
            flip(file, half(file))
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 4
    assert f"sluice: {newest}: block 0 " in refused.stderr

    replay = [sys.executable, "-m", "sluice", "replay", str(ended.file), "--checkpoint", str(checkpoint)]
    repeated = subprocess.run(replay, capture_output=True, text=True, check=False)
    assert repeated.returncode == 4
    assert f"{checkpoint}/buckets/0/" in repeated.stderr
    assert "is damaged" in repeated.stderr
