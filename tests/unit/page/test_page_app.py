"""The page of the service as HTML, JSON and event files, and the requests that it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.ops.http_server import application as ops_application
from sluice.ops.pipelines import Pipelines, State
from sluice.page.page_app import application
from sluice.page.pipeline_pages import Pages, PipelinePage
from tests.unit.ops.registered_pipelines import registered
from tests.unit.page.page_without_service import FILE, START, WINDOW, answer, at, page

ADDRESS = "http://127.0.0.1:8080"


def client(
    *pages: PipelinePage, local: bool = True, host: str = "127.0.0.1", starting: str = "", several: bool = False,
    wrong: Mapping[str, str] | None = None,
) -> TestClient:  # fmt: skip
    pipelines = Pipelines(several=several)
    pipelines.set_wrong_files(wrong or {})
    shown = Pages(pipelines)
    for one in pages or (page(),):
        shown.add(one)
        state = State.STARTING if starting == one.name else State.RUNNING
        pipelines.register(replace(registered(one.name, state, began=state is State.RUNNING), pipeline=one.pipeline))
    served = ops_application(lambda: b"a 1\n", pipelines, application(shown, local=local))
    return TestClient(served, base_url=ADDRESS, client=(host, 50_000), raise_server_exceptions=True)


def with_window(bucket: int, question: Any) -> dict[str, Any] | None:
    """The windows of the key oslo are in bucket 1."""
    found = [WINDOW] if bucket == 1 and question.get("key") == "oslo" else []
    return answer(bucket, windows=found) if "key" in question else answer(bucket)


# ---- HTML ------------------------------------------------------------------------------------------------------------


def test_the_page_of_the_only_pipeline_is_the_first_page():
    found = client().get("/")
    assert found.status_code == 200
    assert found.text == client().get("/pipelines/shop").text
    assert "<h1>shop</h1>" in found.text


def test_the_page_says_what_holds_the_windows_back():
    text = client().get("/").text
    assert "Topic partition 1 of orders holds it back" in text
    assert "1 min behind the furthest one" in text
    assert "120 records of orders are not read yet (topic partition 0)." in text


def test_the_page_has_rates_lag_watermark_and_state():
    text = client().get("/").text
    for expected in ("30/s", "120 unread", "watermark 2024-05-01 10:00:40", "3 partitions", "1000 B", "slowest"):
        assert expected in text, expected


def test_texts_of_records_are_escaped():
    text = client().get("/").text
    assert "<b>at byte" not in text
    assert "&lt;b&gt;at byte 3&lt;/b&gt;" in text
    assert "<i></td>" not in text


def test_the_tables_are_there_without_scripts():
    text = client().get("/").text
    assert '<noscript><meta http-equiv="refresh"' in text
    assert text.count("<table") >= 4


def test_several_pipelines_have_a_list_and_a_page_each():
    other = page(FILE.replace("pipeline: shop", "pipeline: other.shop"))
    both = client(page(), other, starting="other.shop", several=True)
    listed = both.get("/").text
    assert 'href="/pipelines/shop"' in listed
    assert 'href="/pipelines/other.shop"' in listed
    assert "starting" in listed
    assert "<h1>other.shop</h1>" in both.get("/pipelines/other.shop").text
    assert [one["name"] for one in both.get("/api/pipelines").json()["pipelines"]] == ["other.shop", "shop"]


def test_a_folder_with_one_pipeline_has_the_list_too_because_another_file_may_be_added():
    one = client(several=True)
    assert 'href="/pipelines/shop"' in one.get("/").text
    assert '<a href="/">all pipelines</a>' in one.get("/pipelines/shop").text
    assert '<a href="/">all pipelines</a>' not in client().get("/pipelines/shop").text


def test_the_list_says_what_is_wrong_with_a_file():
    listed = client(several=True, wrong={"pipelines/b.yaml": "expected a <window>"})
    assert "pipelines/b.yaml: expected a &lt;window&gt;" in listed.get("/").text
    assert listed.get("/api/pipelines").json()["wrong_files"] == [
        {"file": "pipelines/b.yaml", "problem": "expected a <window>"}
    ]


def test_a_pipeline_keeps_its_page_over_starts_until_its_file_is_changed_or_removed():
    pipelines = Pipelines(several=True)
    pages = Pages(pipelines)
    pipeline, changed = page().pipeline, page(FILE.replace("topic: orders", "topic: purchases")).pipeline
    assert pipeline != changed
    pipelines.register(replace(registered("shop"), pipeline=pipeline))
    first = pages.of(pipeline)
    assert pages.of(page().pipeline) is first
    second = pages.of(changed)
    assert second is not first
    assert pages.all == [second]
    pipelines.remove("shop")
    assert pages.get("shop") is None
    assert pages.of(page(FILE.replace("pipeline: shop", "pipeline: other")).pipeline).name == "other"
    pipelines.register(replace(registered("shop"), pipeline=changed))
    assert pages.of(changed) is not second


def test_the_windows_of_a_key_say_when_they_fire_and_why():
    text = client(page(inspect=with_window)).get("/pipelines/shop/windows?key=oslo").text
    assert "since 2024-05-01 10:00:10 of event time" in text
    assert "the watermark reaches 2024-05-01 10:01:00, the end of a pane" in text
    assert "20 s of event time are missing (topic partition 1 is the slowest)" in text


def test_a_key_without_windows_is_called_that():
    text = client(page(inspect=with_window)).get("/pipelines/shop/windows?key=<none>").text
    assert "No window of the key <code>&lt;none&gt;</code> holds tuples" in text


def test_state_servers_that_do_not_answer_leave_the_page_readable():
    text = client(page(inspect=lambda *_: None)).get("/").text
    assert "No answer from the state servers yet" in text
    assert "the record keys" in text
    windows = client(page(inspect=lambda *_: None)).get("/pipelines/shop/windows?key=oslo").text
    assert "2 buckets did not answer in time" in windows


def test_a_pipeline_that_has_not_started_has_a_page():
    empty = PipelinePage(page().pipeline, records=dict)
    text = client(empty, starting="shop").get("/").text
    assert "starting" in text
    assert "No batch has ended since the start." in text


# ---- JSON, event files -----------------------------------------------------------------------------------------------


def test_the_api_has_the_same_as_the_page():
    found = client().get("/api/pipelines/shop").json()
    (stage,) = found["stages"]
    assert found["unread"] == 120
    assert [one["bytes"] for one in stage["buckets"]] == [1000, 2000]
    assert stage["inputs"][0]["watermark"] == at(40)
    assert stage["operators"][0]["fired"] == pytest.approx(0.3)
    assert stage["batches"][0] == {
        "batch": 0, "at": "2024-05-01T10:00:00Z", "records": 600, "seconds": 0.3,
        "phases": {"addBatch": 0.2, "walCommit": 0.05},
    }  # fmt: skip


def test_the_api_has_the_windows_of_a_key():
    (window,) = client(page(inspect=with_window)).get("/api/pipelines/shop/windows?key=oslo").json()["windows"]
    assert (window["stage"], window["tuples"]) == ("shop", 2)
    assert window["fires"].startswith("It fires when the watermark reaches")


def test_the_last_records_are_an_event_file_oldest_first():
    lines = client().get("/pipelines/shop/events/turnover.jsonl").text.splitlines()
    value = {"shop": "oslo", "minute": "2024-05-01T10:00:00Z", "amount": 3.5}
    about = {"at": START + 60.0, "stream": "turnover", "topic_partition": 0}
    assert [json.loads(line) for line in lines] == [about | {"tuple": value}, about | {"punct": "window"}] * 2
    (letter,) = client().get("/pipelines/shop/events/wrong.jsonl").text.splitlines()
    assert json.loads(letter) == {
        "at": float(START), "stream": "orders", "topic_partition": 1, "offset": 12, "record": {"value": "{x"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "path",
    ["/pipelines/none", "/pipelines/none/windows", "/api/pipelines/none", "/pipelines/shop/events/none.jsonl",
     "/static/none.js", "/static/../page_app.py", "/favicon.ico", "/metrics/"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(path: str):
    assert client().get(path).status_code == 404


# ---- who is answered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/pipelines", "/pipelines/shop/windows"])
def test_nothing_can_be_changed(method: str, path: str):
    assert client().request(method, path).status_code == 405


def test_head_is_answered():
    assert client().head("/").status_code == 200


@pytest.mark.parametrize("host", ["10.0.0.7", "192.168.1.2", "2001:db8::1", "testclient"])
def test_another_machine_gets_metrics_but_not_the_page(host: str):
    far = client(host=host)
    assert far.get("/").status_code == 403
    assert far.get("/api/pipelines/shop/windows?key=oslo").status_code == 403
    text = far.get("/").text
    assert f"This request comes from {host}, which is another machine or another container." in text
    for way in ("ssh -L 8080:localhost:8080 HOST", "port-forward POD 8080", "--publish 127.0.0.1:8080:8080"):
        assert way in text
    assert "--page open" in text
    assert far.get("/metrics").text == "a 1\n"
    assert far.get("/healthz").status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"])
def test_this_machine_gets_the_page(host: str):
    assert client(host=host).get("/").status_code == 200


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1.evil.example:8080", "[::2]:8080", ""])
def test_another_host_name_is_refused(name: str):
    refused = client().get("/", headers={"Host": name})
    assert refused.status_code == 403
    shown = name if name.endswith("]") else name.rpartition(":")[0] or name
    assert (
        f"This request names the host '{shown}'; the names of this machine are localhost, [::1], 127.0.0.1."
        in refused.text
    )
    assert "another name, a proxy, or a closed network" in refused.text


@pytest.mark.parametrize("name", ["localhost:8080", "LOCALHOST", "[::1]:8080", "[::1]"])
def test_the_names_of_this_machine_are_known(name: str):
    assert client().get("/", headers={"Host": name}).status_code == 200


def test_an_open_page_is_for_everyone():
    assert client(local=False, host="10.0.0.7").get("/", headers={"Host": "sluice.example"}).status_code == 200


def test_the_page_may_load_nothing_from_outside():
    for path in ("/", "/static/sluice.css", "/static/page.js"):
        found = client().get(path)
        assert found.status_code == 200
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert "http://" not in found.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in found.text


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_the_search_offers_the_keys_of_the_last_records_and_then_those_of_windows():
    text = client().get("/").text
    assert '<option value="oslo"><option value="&lt;i&gt;"><option value="bergen">' in text
    assert '<a href="/pipelines/shop/windows?key=bergen">bergen</a>' in text


@pytest.mark.parametrize(("part", "keys"), [("", ["oslo", "<i>", "bergen"]), ("e", ["bergen"]), ("x", [])])
def test_the_completion_has_the_keys_that_contain_what_was_typed(part: str, keys: list[str]):
    assert client().get("/api/pipelines/shop/keys", params={"part": part}).json() == {"keys": keys}


def test_the_page_of_the_windows_has_the_same_search():
    text = client().get("/pipelines/shop/windows?key=oslo").text
    assert 'data-keys="/api/pipelines/shop/keys" value="oslo"' in text
