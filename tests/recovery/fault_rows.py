"""The rows of the documents' tables of faults, and the letter and number with which the names of their tests begin.

A test that covers row e03 is named `test_e03_...`; test_fault_rows.py checks that each row has a test, and each such
test a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sluice.files import project_file


class Table(NamedTuple):
    """A table of a page: the one in this section."""

    page: str
    section: str
    #: how many cells say which row it is
    cells: int = 1


FAULTS, STARTS = "What can fail, and when", "What is refused at the start"
EXACTLY_ONCE = Table("docs/exactly-once.md", FAULTS)
REFUSALS = Table("docs/exactly-once.md", STARTS, cells=2)
PARTS = Table("docs/exactly-once.md", "Several writers")
STATE = Table("docs/state.md", FAULTS)

ROWS: dict[Table, dict[str, str]] = {
    EXACTLY_ONCE: {
        "e01": "killed before batch 7 is planned",
        "e02": "killed while records are read, or while buckets compute",
        "e03": "killed while records are produced",
        "e04": "killed while the commit is on its way",
        "e05": "killed after Kafka's commit, before Spark's",
        "e06": "killed after both",
        "e07": "the driver, which also writes to Kafka, or Spark's JVM is killed alone",
        "e08": "a task fails, is repeated, or a zombie of it goes on",
        "e10": "a reader dies",
        "e09": "the process that keeps a bucket's state dies",
        "e11": "the broker is gone for a while, or connections are lost",
        "e12": "an answer to the commit is lost",
        "e13": "a call of the client library does not return",
        "e14": "a record is larger than its topic takes",
        "e15": "a second instance starts with the same checkpoint folder",
        "e16": "a second instance starts with a copy of the checkpoint",
    },
    REFUSALS: {
        "s1": "new | empty",
        "s2": "planned batch 0 only | empty",
        "s3": "lost: an empty folder | of a checkpoint of this pipeline file",
        "s12": "no batch was committed | of another checkpoint of this pipeline file",
        "s4": "used | of another checkpoint",
        "s5": "used | empty, group and topic",
        "s14": "used | the group was deleted, or its offsets were reset",
        "s6": "used, older or newer than the ledger | its own",
        "s7": "used, at the ledger's batch or one before it, "
        "but with another digest of the ledger's last batch | its own",
        "s8": "used, at the ledger's batch or one before it, with the same digest | its own",
        "s13": "the same, made for an earlier form of the pipeline file | its own",
        "s9": "a file of Spark's (`metadata`, `offsets/`, `commits/`) or the folder of a bucket "
        "is damaged or missing | its own",
        "s10": "`sluice.json` is damaged or missing, and other files are there | its own",
        "s11": "to be restored, but what is needed is gone | its own",
    },
    PARTS: {
        "p01": "killed before a part is committed",
        "p02": "a state server or an executor is killed while it produces",
        "p03": "killed between the commits of two writers",
        "p04": "an executor is killed after the commit of its part, before its task has ended",
        "p05": "the driver is killed when all parts are in, before it closes",
        "p06": "killed after the close, before Spark's commit",
        "p07": "the commit of a part is on its way, or its answer is lost",
        "p08": "a commit that was slow or unclear may arrive twice",
        "p09": "a bucket moves to another executor",
        "p10": "an executor stands still, and goes on when another one has its bucket",
        "p11": "a start finds some parts of a batch",
        "p12": "a second instance starts with a copy of the checkpoint, which planned another batch 7 or none",
        "p13": "the checkpoint is lost while a batch is in parts",
        "p14": "the same with batch 0, before any batch was closed",
        "p15": "the number of buckets is changed while a batch is in parts",
        "p21": "an output gets topic partitions while a batch is in parts",
        "p16": "`writers: one`, or local mode, while a batch is in parts",
        "p17": "the pipeline file is changed while a batch is in parts",
        "p18": "`--reset-ledger`",
        "p19": "a record is larger than its topic takes",
        "p20": "the broker is gone for a while",
    },
    STATE: {
        "k01": "the state server is killed, at rest or at work",
        "k02": "a batch fails inside the engine",
        "k03": "the task dies after the state server has answered",
        "k04": "a task that was given up goes on",
        "k05": "the fork server dies; on a cluster, the daemon of an executor",
        "k06": "killed while it appends to the log",
        "k07": "killed while a snapshot is written",
        "k08": "a snapshot is damaged",
        "k09": "an entry of the log is damaged",
        "k10": "an entry of the log is missing",
        "k11": "the machine loses power, `durability: process`",
        "k13": "the machine loses power, `durability: machine`",
        "k12": "the disk is full, or can only be read",
    },
}


def documented(table: Table) -> Iterator[str]:
    """What the items of a list begin with in bold, or what the first cells of each row of a table say."""
    text = project_file(table.page).read_text()
    section = text.partition(f"## {table.section}\n")[2].partition("\n## ")[0]
    yield from re.findall(r"^\* \*\*(.+?)\*\*", section, re.MULTILINE)
    for line in [line for line in section.splitlines() if line.startswith("|")][2:]:
        cells = [cell.strip() for cell in line.removeprefix("|").split("|")]
        yield " | ".join(cells[: table.cells]).strip()


def covering(folder: Path) -> Iterator[tuple[str, str]]:
    """The id of the row and the whole name of each test that covers one."""
    for path in sorted(folder.glob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE):
            if found := re.match(r"test_([a-z]\d+)_", name):
                yield found[1], f"{path.name}::{name}"
