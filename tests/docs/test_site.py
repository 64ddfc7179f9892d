"""The documentation as a site: every page is in its navigation, and it builds without a warning (mkdocs.yml)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.site_pages import page_line, search_rank
from sluice.files import project_file
from tests.docs.markdown import plain_lines

DOCS, ROOT = project_file("docs"), project_file("README.md").parent
CONFIGURATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
#: pages that deploy/site_pages.py adds to those of docs/
ADDED = {"index.md", "contributing.md", "changelog.md"}

#: words of a search -> the section that has them
SEARCHED = {
    "why does my window not fire": "clock.html#why-does-my-window-not-fire",
    "Debezium": "recipes.html#change-events-of-a-database",
    "OHLC": "faq.html#how-do-i-compute-ohlc-bars",
    "funnel": "faq.html#how-do-i-count-a-funnel",
    "haversine": "functions.html#numbers",
    "late events": "faq.html#what-happens-to-late-records-late-events-late-data",
    "upgrade to a new version": "faq.html#how-do-i-upgrade-sluice-to-a-new-version-or-roll-back",
    "change length window": "faq.html#how-do-i-change-the-pipeline-file-or-the-length-of-a-window-without-losing-state",
    "no results": "faq.html#why-is-there-no-output-no-results-why-does-my-window-not-fire",
    "replay yesterday": "faq.html#how-do-i-read-a-topic-again-backfill-reprocess-replay-yesterday",
    "million keys memory": "faq.html#how-much-memory-does-it-need",
    "no record five minutes": "recipes.html#alarm-if-no-record-comes-for-five-minutes",
    "mTLS": "security.html#connect-with-sasl-tls-or-mutual-tls-mtls",
    "k8s Helm": "deployment.html#on-kubernetes",
    "DLQ": "faq.html#what-happens-to-invalid-records-poison-pills-is-there-a-dead-letter-queue-dlq",
    "send dead letters again": "formats.html#send-dead-letters-again",
    "sum per day timezone": "faq.html#how-do-i-get-a-sum-per-day-in-a-timezone",
    "left join timeout null": "faq.html#how-do-i-join-with-a-timeout-null-after-ten-minutes-without-a-partner",
    "deduplicate": "faq.html#how-do-i-drop-duplicates-deduplicate-by-an-id",
    "state TTL": "faq.html#how-do-i-expire-keys-state-ttl",
    "UDF": "faq.html#how-do-i-write-a-function-of-my-own-udf",
    "tombstones": "faq.html#what-happens-to-tombstones-records-without-a-value",
    "change buckets": "checkpoint.html#change-the-number-of-buckets",
    "macOS": "install.html#linux-macos-windows",
    "license": "index.html#maturity-and-license-is-it-ready-for-production",
    "high availability": "standby.html",
    "exactly once with my consumer": "faq.html#exactly-once-with-my-consumer-why-does-it-see-records-twice",
    "how much memory": "faq.html#how-much-memory-does-it-need",
    "two machines": "faq.html#how-do-i-use-a-second-machine-or-two-machines",
    "gap filling": "faq.html#how-do-i-fill-gaps",
    "CUMULATE": "windows.html#cumulate-panes-that-grow",
    "second machine": "faq.html#how-do-i-use-a-second-machine-or-two-machines",
    "null": "reference/null.html",
}


def places(index: dict[str, Any], words: str) -> list[str]:
    """The sections of the search's index that have all of the words, as the search compares them: a word of the search
    is the start of a word of the section.
    """
    separator = re.compile(index["config"]["separator"])
    texts = {section["location"]: f"{section['title']} {section['text']}".lower() for section in index["docs"]}
    starts = {place: separator.split(re.sub(r"<[^>]*>", " ", text)) for place, text in texts.items()}
    return [
        place
        for place, all_words in starts.items()
        if all(has_start(all_words, word) for word in words.lower().split())
    ]


def has_start(words: list[str], start: str) -> bool:
    return any(word.startswith(start) for word in words)


def pages_of(navigation: list[Any] | dict[str, Any] | str) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        for entry in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from pages_of(entry)


def test_every_page_is_in_the_navigation_once():
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(pages_of(CONFIGURATION["nav"])) == sorted(pages | ADDED)


def test_the_navigation_groups_the_pages():
    parts = [title for group in CONFIGURATION["nav"] for title in group]
    assert parts == ["Sluice", "Learn", "Do", "Look up", "Understand", "Inside"]


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.relative_to(DOCS).as_posix())
def test_lists_and_tables_begin_after_an_empty_line(page: Path):
    """GitHub also accepts a list directly below a paragraph. The site would show its items as text of the paragraph."""
    before, faults = "", []
    for number, line in plain_lines(page.read_text(encoding="utf-8")):
        begins = line.startswith(("* ", "- ", "1. ", "| "))
        if begins and before and not before.startswith(("* ", "- ", "|", " ", "<")) and not before[0].isdigit():
            faults.append(f"line {number}: {line}")
        before = line
    assert faults == []


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("(W19)", "spl-windows"), ("(KIP W6)", "kip450-sliding"), ("(G4)", "session"), ("(Y2)", "extensions"),
        ("(B6)", "marks"), ("(NU24)", "null"),
    ],
)  # fmt: skip
def test_a_rule_in_parentheses_is_a_link_to_its_reference(text: str, page: str):
    rule = text.strip("()").removeprefix("KIP ")
    link = f"[{rule}](reference/{page}.md#{rule.lower()})"
    assert page_line(f"A rule {text}.", "windows.md") == f"A rule {text.replace(rule, link)}."


@pytest.mark.parametrize(
    "page", ["reference/null.md", "reference/index.md", "state.md", "changelog.md", "files/tests/README.md"]
)
def test_the_search_finds_pages_for_users_before_rules_and_the_inside(page: str):
    assert search_rank(page) < search_rank("clock.md") == search_rank("index.md")


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    file_page = (tmp_path / "pipeline-file.html").read_text()
    assert '<a href="reference/spl-windows.html#w19">W19</a>' in file_page
    assert '<a href="reference/kip450-sliding.html#w6">W6</a>' in file_page
    assert 'id="mark_when-and-marks_in"' in file_page  # the anchor that GitHub makes
    assert 'href="files/examples/flights.yaml"' in (tmp_path / "deployment.html").read_text()
    assert (tmp_path / "files/examples/flights.yaml").read_text() == project_file("examples/flights.yaml").read_text()
    index = (tmp_path / "index.html").read_text()
    assert 'href="windows.html"' in index
    assert re.findall(r'<(?:script|link)[^>]*(?:src|href)="(?:https?:)?//[^"]*"', index) == []  # nothing from elsewhere
    assert 'href="site/icon.svg"' in index
    searched = json.loads((tmp_path / "search/search_index.json").read_text())
    missing = {words: place for words, place in SEARCHED.items() if place not in places(searched, words)}
    assert missing == {}
