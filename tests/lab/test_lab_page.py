"""The page of the lab in a headless Chromium: what a user types and drags, and what the page then shows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.chromium import Browser

pytestmark = pytest.mark.chromium

DRAWN = "document.querySelector('#picture svg') !== null"
TEXTS = "[...document.querySelectorAll('#picture text')].map((one) => one.textContent).join('|')"


KEYED = """\
pipeline: sums
streams:
  numbers: {topic: numbers, schema: {key: string, x: int64}}
  sums: {topic: sums}
operators:
  - name: sum
    aggregate: numbers
    window: sliding, count(3), count(1), partitioned
    partition_by: [key]
    output: {sums: {key: key, sum: Sum(x)}}
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from served()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page with 300 records of three keys, one a second."""
    file = tmp_path_factory.mktemp("lab") / "sums.yaml"
    file.write_text(KEYED)
    records = [{"at": 1767261600 + n, "record": {"value": {"key": f"k{n % 3}", "x": n}}} for n in range(300)]
    file.with_suffix(".jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    yield from served(str(file), str(file.with_suffix(".jsonl")))


def served(*arguments: str) -> Iterator[str]:
    command = [sys.executable, "-m", "sluice", "lab", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield next(word for word in server.stdout.readline().split() if word.startswith("http://"))
        server.terminate()
        server.wait(20)


@pytest.fixture
def page(address: str, tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as browser:
        browser.size(1280, 900)
        browser.open(address)
        browser.until(DRAWN)
        yield browser
        assert browser.errors == []


def replaced(page: Browser, old: str, new: str) -> None:
    """Selects a part of the pipeline file and types another one."""
    page.value(
        f"(() => {{ const file = document.getElementById('file'), at = file.value.indexOf({old!r}); file.focus(); "
        f"file.setSelectionRange(at, at + {len(old)}); }})()"
    )
    page.write(new)


def test_the_first_example_is_drawn(page: Browser):
    assert "A 15.6 3 ■" in page.value(TEXTS)
    assert page.value("document.getElementById('slider').max") == "4"


def test_typing_in_the_file_changes_the_picture(page: Browser):
    assert "A 15.6 3 ■" in page.value(TEXTS), "the last three trades"
    replaced(page, "count(3)", "count(2)")
    page.until(f"{TEXTS}.includes('sliding, count(2)')")
    assert "A 15.6 3 ■" not in page.value(TEXTS), "there are only two"


def test_an_error_is_shown_with_its_line_and_the_picture_pales(page: Browser):
    line = page.value(
        "document.getElementById('file').value.split('\\n').findIndex((one) => one.includes('window:')) + 1"
    )
    replaced(page, "sliding", "slidin")
    assert "slidin" in page.until("document.getElementById('problems').textContent")
    assert page.value("document.querySelector('#lines b').textContent") == str(line)
    assert page.value("document.getElementById('picture').classList.contains('stale')")
    replaced(page, "slidin", "sliding")
    page.until("document.getElementById('problems').textContent === ''")


def test_an_event_is_added_edited_and_deleted(page: Browser):
    rows = "document.querySelectorAll('#events tbody tr').length"
    page.value("document.getElementById('add').click()")
    page.until("Number(document.getElementById('slider').max) === 5")
    assert page.value(rows) == 6
    page.value("document.querySelector('#events tbody tr:last-child td.wide input').select()")
    page.write('{"symbol": "Z", "price": 1.0, "size": 1}')
    page.until(f"{TEXTS}.includes('Z 1.0 1 ■')")
    page.value("document.querySelector('#events tbody tr:last-child button:last-child').click()")
    page.until(f"!{TEXTS}.includes('Z 1.0 1 ■')")
    assert page.value(rows) == 5


def test_a_large_int64_is_exact(page: Browser):
    page.value("document.querySelector('#events tbody tr:last-child td.wide input').select()")
    page.write('{"symbol": "L", "price": 1.5, "size": 9007199254740993}')
    page.until(f"{TEXTS}.includes('size=900719925474099')")
    assert "size=9007199254740993" in page.value(TEXTS), "a number of JavaScript would be 9007199254740992"
    assert '{"symbol": "L", "price": 1.5, "size": 9007199254740993}' in page.value("events().join()")


def test_a_deleted_row_of_a_table_leaves_the_picture(page: Browser):
    page.value("document.getElementById('presets').value = 'recipes/change_events'; choose()")
    page.until(f"{TEXTS}.includes('delete id=7')")
    texts = page.value(TEXTS).split("|")
    assert any(text.endswith("7·Ada") for text in texts)
    assert not any(text.endswith("7·") for text in texts), "the deletion is no row"
    marbles = "[...document.querySelectorAll('.marble')].map((one) => one.textContent)"
    assert page.value(marbles)[6] == "\N{MULTIPLICATION SIGN}"
    page.value("document.querySelector('#events tbody tr:nth-child(7) button:last-child').click()")
    page.until(f"!{TEXTS}.includes('delete id=7')")
    assert "\N{MULTIPLICATION SIGN}" not in page.value(marbles)


def test_a_wrong_event_is_marked(page: Browser):
    page.value("document.querySelector('#events tbody tr:nth-child(2) td.wide input').select()")
    page.write('{"symbol": 1}')
    page.until("document.querySelector('#events tbody tr.wrong') !== null")
    assert page.value("document.querySelector('#events tbody tr.wrong').dataset.number") == "1"


def test_a_time_that_is_no_number_is_marked_and_the_picture_pales(page: Browser):
    page.value("document.querySelector('#events tbody tr:nth-child(2) td.at input').select()")
    page.write("0,5")
    assert "event 1: the time is no number" in page.until("document.getElementById('event-error').textContent")
    assert page.value("document.getElementById('picture').classList.contains('stale')")


def test_another_preset_shows_nothing_of_the_one_before(page: Browser):
    replaced(page, "sliding", "slidin")
    page.until("document.getElementById('problems').textContent")
    page.value("window.answered = ask, ask = () => {}")  # the answer takes its time
    page.value("document.getElementById('presets').value = 'recipes/change_events'; choose()")
    for part in ("problems", "picture", "step", "event-error"):
        assert page.value(f"document.getElementById('{part}').textContent") == "", part


def test_a_time_of_the_calendar_is_shown_in_full(page: Browser):
    page.value("document.getElementById('presets').value = 'recipes/event_sessions'; choose()")
    page.until(DRAWN)
    field = "document.querySelector('#events tbody td.at input')"
    assert len(page.value(f"{field}.value")) >= 10
    assert page.value(f"{field}.scrollWidth <= {field}.clientWidth")


def test_an_event_is_dragged_in_time(page: Browser):
    place = page.value(
        "(() => { const box = document.querySelector('.marble[data-number=\"2\"]').getBoundingClientRect(), "
        "line = document.getElementById('marbles').getBoundingClientRect(); "
        "return [box.x + box.width / 2, box.y + box.height / 2, line.x + line.width * 0.8]; })()"
    )
    page.mouse("mousePressed", place[0], place[1])
    page.mouse("mouseMoved", place[2], place[1])
    page.mouse("mouseReleased", place[2], place[1])
    page.until(f"{TEXTS}.includes('2.8')")
    assert page.value("document.querySelector('#events tbody tr:nth-child(4) td.at input').value") == "2.8"


def test_the_slider_pales_what_comes_later(page: Browser):
    page.value(
        "(() => { const slider = document.getElementById('slider'); slider.value = 1; "
        "slider.dispatchEvent(new Event('input')); })()"
    )
    assert page.value("document.getElementById('step').textContent").startswith("step 2 of 5, at 0.5")
    pale = "[...document.querySelectorAll('#picture text.future')].map((one) => one.textContent).join('|')"
    assert "A 15.6 3 ■" in page.value(pale)
    assert "A 10.0 1 ■" not in page.value(pale)
    assert page.value("document.querySelector('#events tr.now').dataset.number") == "1"
    cover = "(({ x, width }) => [x, width])(document.querySelector('#picture .cover').getBBox())"
    left, width = page.value(cover)
    third = page.value("Number(document.querySelector('#picture .cover').dataset.positions.split(' ')[2])")
    assert left == pytest.approx(third - 5)
    assert width > 0


MARBLES = "[...document.querySelectorAll('.marble')].map((one) => one.textContent).join('|')"


def test_records_are_decoded_and_the_picture_zooms_to_a_key_and_a_range(recorded: str, tmp_path: Path):
    with Browser(tmp_path / "profile") as page:
        page.size(1280, 900)
        page.open(recorded)
        page.until(DRAWN)
        page.until(f"{MARBLES}.startsWith('k0·0|k1·1|')")
        assert page.value("document.querySelector('td.wide .decoded').textContent") == "key=k0 x=0"
        assert "k1" in page.value(TEXTS).split("|")
        page.value("document.getElementById('key').value = 'k2'")
        page.value("document.getElementById('key').dispatchEvent(new Event('change'))")
        page.until(f"!{TEXTS}.split('|').includes('k1')")
        assert page.value("document.getElementById('slider').max") == "99"
        page.value("document.getElementById('from').select()")
        page.write("2026-01-01 10:04:50")
        page.until("document.getElementById('slider').max === '4'")
        page.value("document.getElementById('all').click()")
        page.until("document.getElementById('slider').max === '299'")
        assert page.errors == []


def test_many_events_fit_the_screen(recorded: str, tmp_path: Path):
    with Browser(tmp_path / "profile") as page:
        page.size(390, 900)
        page.open(recorded)
        page.until(DRAWN)
        assert page.value("document.documentElement.scrollWidth") <= 390
        assert page.value("document.getElementById('picture').clientHeight") <= 900
        boxes = "[...document.querySelectorAll('.marble:not(.dot)')].map((one) => one.getBoundingClientRect())"
        covered = "a !== b && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom"
        assert (
            page.value(f"(() => {{ const all = {boxes}; return all.some((a) => all.some((b) => {covered})); }})()")
            is False
        )


def test_each_preset_is_drawn(page: Browser):
    names = page.value("[...document.getElementById('presets').options].map((one) => one.value)")
    assert len(names) == len([*Path("examples").rglob("*.yaml")])
    for name in names:
        page.value("document.getElementById('picture').replaceChildren()")
        page.value(f"document.getElementById('presets').value = {name!r}; choose()")
        page.until(DRAWN)
        wrong = "document.getElementById('problems').textContent + document.getElementById('event-error').textContent"
        assert page.value(wrong) == ""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_not_wider_than_the_screen(page: Browser, width: int):
    page.size(width, 900)
    assert page.value("document.documentElement.scrollWidth") <= width


def test_an_answer_is_there_within_a_tenth_of_a_second(page: Browser):
    """The least of several answers: other programs may use the processor meanwhile."""
    ask = "ask().then(() => parseInt(document.getElementById('status').textContent))"
    assert min(page.value(ask) for _ in range(20)) < 100
