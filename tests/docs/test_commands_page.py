"""docs/commands.md: its table has every command, and the drafted file is the one that `sluice init` writes."""

from __future__ import annotations

import re

from sluice.cli import COMMANDS
from sluice.config.load import check_text
from sluice.draft.draft_pipeline import draft
from sluice.draft.sample_table import findings
from sluice.draft.sampled_records import Sampled, sample
from sluice.draft.user_choices import AUTOMATIC, roles_of
from sluice.files import project_file

PAGE = project_file("docs/commands.md").read_text(encoding="utf-8")


def block(marker: str) -> str:
    found = re.search(rf"<!-- {marker} -->\n```\w*\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_table_has_the_commands_in_their_order():
    rows = re.findall(r"^\| `sluice (\w+)` \| (.*?) \|", PAGE, re.MULTILINE)
    assert rows == [(name, lazy.help) for name, lazy in COMMANDS.items()]


def test_the_drafted_file():
    sampled = sample("trades", [Sampled(line.encode(), None) for line in block("sampled").splitlines()], {})
    text = draft("trades", sampled, "trades.yaml", {"bootstrap.servers": "localhost:9092"}, {})
    assert block("drafted") == text
    assert block("findings").splitlines() == list(findings(sampled, roles_of(sampled, AUTOMATIC)))
    assert check_text(text, "trades.yaml").problems == ()
