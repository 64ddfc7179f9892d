"""The page of a running service in a headless Chromium, with a real broker: what it shows while records come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.lab.chromium import Browser
from tests.page.shop import Shop, running

pytestmark = [pytest.mark.chromium, pytest.mark.kafka, pytest.mark.spark]

TEXT = "document.querySelector('main').innerText"
#: the widths of a phone and of a desk
WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def shop(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A service that has read three minutes of orders."""
    with running(broker, tmp_path_factory.mktemp("shop"), "page-shop") as shop:
        shop.trade()
        shop.until(lambda found: found["stages"][0]["buckets"] and not found["unread"])
        shop.until(lambda found: len(found.get("turnover", ())) >= 3 and len(found["wrong"]) == 2, "/records")
        yield shop


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as browser:
        browser.size(1280, 900)
        yield browser
        assert browser.errors == []


def opened(browser: Browser, address: str) -> None:
    browser.open(address)
    browser.until(f"location.href === {address!r} && document.readyState === 'complete'")


def test_the_page_names_the_topic_partition_that_holds_the_windows_back(shop: Shop, browser: Browser):
    opened(browser, shop.address)
    text = browser.until(f"{TEXT}.includes('holds it back') && {TEXT}")
    assert "Topic partition 2 of orders holds it back: its watermark is 2024-05-01 10:01:05" in text
    assert "The pane that ends next, at 2024-05-01 10:02:00, lacks 55 s of event time." in text


def test_the_page_has_the_last_firings_and_dead_letters(shop: Shop, browser: Browser):
    opened(browser, shop.address)
    text = browser.until(f"{TEXT}.includes('Last dead letters') && {TEXT}")
    assert "not JSON" in text
    assert "wrong type" in text
    assert "2024-05-01T10:00:00Z" in text
    copied = browser.value("document.querySelector('#file-wrong textarea').value")
    assert '"record":{"value":"{\\"shop\\": \\"oslo\\""}' in copied


def test_a_search_shows_the_windows_of_a_key(shop: Shop, browser: Browser):
    opened(browser, shop.address)
    browser.value("document.getElementById('key').focus()")
    browser.write("oslo")
    browser.value("document.querySelector('form.search').requestSubmit()")
    text = browser.until(f"location.search === '?key=oslo' && document.readyState === 'complete' && {TEXT}")
    assert "It fires when the watermark reaches 2024-05-01 10:02:00" in text
    assert "It fires with 1 more tuple." in text
    assert text.count("Would come out now") == 2
    assert browser.value("document.querySelectorAll('.window').length") == 2


def test_typing_a_part_of_a_key_offers_known_keys(shop: Shop, browser: Browser):
    opened(browser, shop.address)
    assert browser.value("document.getElementById('last-keys').innerText").startswith("Last keys:")
    browser.value("document.getElementById('key').focus()")
    browser.write("sl")
    browser.until("[...document.getElementById('keys').options].map((one) => one.value).join() === 'oslo'")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_whole_graph_is_on_the_screen(shop: Shop, browser: Browser, width: int):
    browser.size(width, 900)
    opened(browser, shop.address)
    shown = "[...document.querySelectorAll('svg.graph')].filter((one) => one.getClientRects().length)"
    assert browser.value(f"{shown}.length") == 1
    assert browser.value(f"{shown}[0].getBoundingClientRect().right") <= width
    boxes = f"[...{shown}[0].querySelectorAll('rect')].map((one) => one.getBoundingClientRect().right)"
    assert browser.value(f"Math.max(...{boxes})") <= width


def test_the_page_refreshes_itself(shop: Shop, browser: Browser):
    opened(browser, shop.address)
    shop.send([("bergen", 1.0, 190)], 2)
    browser.until(f"{TEXT}.includes('bergen')")
    assert "Topic partition 2 of orders holds it back" not in browser.value(TEXT)


def test_a_part_that_is_being_copied_is_not_replaced(shop: Shop, browser: Browser):
    opened(browser, shop.address)
    browser.until("document.querySelector('#file-turnover textarea') !== null")
    browser.value("document.querySelector('#file-turnover').open = true")
    browser.value("document.querySelector('#file-turnover textarea').dataset.mine = 'kept'")
    browser.value("document.querySelector('#file-turnover textarea').focus()")
    browser.until("document.documentElement.dataset.refreshed !== undefined")
    assert browser.value("document.querySelector('#file-turnover textarea').dataset.mine") == "kept"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", ["", "pipelines/shop/windows?key=oslo"])
def test_nothing_is_wider_than_the_screen(
    shop: Shop, browser: Browser, width: int, dark: bool, path: str  # noqa: FBT001
):  # fmt: skip
    browser.size(width, 900, dark=dark)
    opened(browser, shop.address + path)
    assert browser.value("document.documentElement.scrollWidth") == width
    light, ink = (
        browser.value(f"getComputedStyle(document.body).{name}").removeprefix("rgb(").split(",")[0]
        for name in ("backgroundColor", "color")
    )
    assert (int(light) < 60 < int(ink)) == dark, "dark pages have light letters"


def test_health_and_metrics_are_on_the_same_port(shop: Shop):
    for path, expected in (("healthz", "ok\n"), ("readyz", "\n"), ("metrics", "sluice_records_read_total")):
        with urlopen(shop.address + path, timeout=30) as answer:  # noqa: S310 - this machine
            assert expected in answer.read().decode()
