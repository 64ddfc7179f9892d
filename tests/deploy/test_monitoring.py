"""The board and the alerts, asked of a real Prometheus that scrapes a real service."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.files import project_file
from sluice.kafka.embedded_broker import free_ports
from sluice.kafka.topics import create
from sluice.ops.metrics import TABLE
from sluice.processes import ChildProcess
from sluice_demo.play_command import play_flights
from tests.deploy.prometheus_server import FOLDER, Prometheus, await_

PROMTOOL = shutil.which("promtool") or "promtool"
BOARD = json.loads(project_file("deploy/grafana/boards/sluice.json").read_text())
RULES = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"][0]["rules"]
ROWS = [panel for panel in BOARD["panels"] if panel["type"] == "row"]
#: all panels, also those in rows that are collapsed
PANELS = [panel for one in BOARD["panels"] for panel in (one["panels"] if one["type"] == "row" else [one])]
QUERIES = [(f"{panel['title']} {target['refId']}", target["expr"]) for panel in PANELS for target in panel["targets"]]
#: that are played in all, and a query for their marks
DAYS = 5 + 3 * 2
MARKS = 'sum(sluice_records_read_total{stream="flights",kind="window"})'

#: `make test` leaves these out; `make test-monitoring` fails where Prometheus is not installed
needs_prometheus = pytest.mark.prometheus


# ---- what is written -------------------------------------------------------------------------------------------------


def test_the_board_is_the_one_that_its_program_makes():
    made = subprocess.run([sys.executable, project_file("deploy/grafana/board.py")], capture_output=True, check=True)
    assert json.loads(made.stdout) == BOARD, "python deploy/grafana/board.py > deploy/grafana/boards/sluice.json"


@pytest.mark.parametrize("metric", [m.name for m in TABLE if m.name not in {"sluice_last_batch", "sluice_build_info"}])
def test_every_metric_is_on_the_board(metric):
    assert any(metric in query for _, query in QUERIES)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_of_which_pipelines(panel):
    assert panel["description"].endswith(".")
    shared = ("sluice_memory_bytes", "sluice_memory_limit_bytes")
    for target in panel["targets"]:
        metrics = re.findall(r"sluice_\w+", target["expr"])
        assert all(name in shared for name in metrics) or target["expr"].count('pipeline=~"$pipeline"') == len(metrics)


def test_every_alert_is_linked_from_a_panel_or_is_about_the_whole_service():
    linked = [link["url"] for panel in PANELS for link in panel["links"]]
    assert all(url.startswith("${docs}/alerts.html#") for url in linked)
    names = {rule["alert"].lower() for rule in RULES}
    found = {url.partition("#")[2] for url in linked}
    assert found <= names
    service = {"sluicedown", "sluiceabsent", "sluicerestarts", "sluicerestartloop", "sluicepipelinefilewrong"}
    assert names - found == service | {"sluicenoleader", "sluicestandbynotready"}


def test_the_board_and_the_alerts_have_the_same_address_of_the_documentation():
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (field,) = (one for one in BOARD["templating"]["list"] if one["name"] == "docs")
    assert field["query"] == field["current"]["value"] == config["global"]["external_labels"]["sluice_docs"]


def test_numbers_have_colours_where_an_alert_has_a_bound():
    coloured = {panel["title"] for panel in PANELS if "thresholds" in panel["fieldConfig"]["defaults"]}
    assert coloured == {
        "Pipelines that do not run", "Operators that are held back", "Unread records", "Dead letters in the last hour",
        "Batch duration, p99", "Age of the newest record, while others are unread", "Duration of batches",
    }  # fmt: skip


def test_panels_are_wide_enough_to_read_and_have_titles_of_their_own():
    assert min(panel["gridPos"]["w"] for panel in PANELS) >= 8
    titles = [panel["title"] for panel in PANELS]
    assert len(titles) == len(set(titles))
    assert min(map(len, titles)) > 8


def test_the_data_source_is_chosen_above_the_board():
    first = BOARD["templating"]["list"][0]
    assert (first["type"], first["query"], first["name"]) == ("datasource", "prometheus", "datasource")
    known = [panel["datasource"] for panel in PANELS] + [t["datasource"] for panel in PANELS for t in panel["targets"]]
    variables = [one["datasource"] for one in BOARD["templating"]["list"] if one["type"] == "query"]
    assert {one["uid"] for one in [*known, *variables]} == {"${datasource}"}


def test_rows_that_are_not_needed_first_are_collapsed():
    assert [row["title"] for row in ROWS if not row["collapsed"]] == ["Now", "Streams"]
    assert all(bool(row["panels"]) == row["collapsed"] for row in ROWS)


@pytest.mark.parametrize("panels", [BOARD["panels"], *(row["panels"] for row in ROWS)])
def test_panels_do_not_overlap(panels):
    taken = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))


@needs_prometheus
@pytest.mark.parametrize("command", [("config", "prometheus.yml"), ("rules", "rules.yml")])
def test_promtool_takes_the_files(command):
    what, file = command
    done = subprocess.run([PROMTOOL, "check", what, str(FOLDER / file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [rule["alert"] for rule in RULES])
def test_each_alert_has_a_section_on_its_page_and_a_test_in_which_it_fires(name):
    rule = next(rule for rule in RULES if rule["alert"] == name)
    assert rule["annotations"]["runbook_url"] == f"{{{{ $externalLabels.sluice_docs }}}}/alerts.html#{name.lower()}"
    page = project_file("docs/alerts.md").read_text()
    assert f"\n## {name}\n\n*{rule['labels']['severity']}*: " in page
    tests = yaml.safe_load(Path(__file__).with_name("alerts.yml").read_text())["tests"]
    fired = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert name in fired


@needs_prometheus
def test_alerts_come_when_they_should(tmp_path):
    """By Prometheus' own tests of rules."""
    shutil.copy(FOLDER / "rules.yml", tmp_path)
    shutil.copy(Path(__file__).with_name("alerts.yml"), tmp_path)
    command = [PROMTOOL, "test", "rules", str(tmp_path / "alerts.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- what is there when it runs --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Of a service that has played some days, with a dead letter among them, and has been scraped a few times."""
    folder = tmp_path_factory.mktemp("monitoring")
    serving, asking = free_ports(2)
    kafka = {"bootstrap.servers": broker}
    play_flights(kafka, "flights", 4, 5, None)
    create(kafka, NewTopic("carriers", 1, 1))
    running = ChildProcess(
        [
            *(sys.executable, "-m", "sluice", "run", str(flights_by_the_hour(folder))),
            *(f"--kafka=bootstrap.servers={broker}", f"--http-port={serving}", f"--checkpoint={folder / 'checkpoint'}"),
        ],
        folder=folder,
        log=folder / "service.log",
    )
    try:
        scraped = Prometheus(folder, serving, asking)
        try:
            await_(lambda: scraped.value("sum(sluice_batches_total)") >= 1, (folder / "service.log").read_text)
            # The rates of a board need counters to move while they are watched.
            for _ in range(3):
                producer = Producer(kafka)
                producer.produce("flights", value=b"not a flight")
                producer.produce("carriers", key=b'{"carrier": "AA"}', value=b'{"name": "American Airlines"}')
                producer.flush()
                play_flights(kafka, "flights", 4, 2, None)
                time.sleep(1)
            await_(lambda: scraped.value(MARKS) >= 4 * DAYS, (folder / "service.log").read_text)
            yield scraped
        finally:
            scraped.stop()
    finally:
        running.terminate(30)


def flights_by_the_hour(folder: Path) -> Path:
    """The example, with a window over event time, so that there are watermarks too, one that waits for the clock, so
    that there is a next firing, a store for snapshots, empty panes, and a stream of change events.
    """
    pipeline = yaml.safe_load(project_file("examples/flights.yaml").read_text())
    pipeline |= {"state": str(folder / "store"), "snapshot_interval": 1}
    pipeline["streams"]["flights"]["event_time"] = {"attribute": "time", "lag": 60, "idle_after": 1}
    pipeline["streams"]["hours"] = {"topic": "flights.hours", "format": "json"}
    pipeline["streams"]["lately"] = {"topic": "flights.lately", "format": "json"}
    pipeline["streams"]["quiet"] = {"topic": "flights.quiet", "format": "json"}
    pipeline["streams"]["carriers"] = {
        "topic": "carriers", "envelope": "upsert", "key": {"attributes": ["carrier"], "format": "json"},
        "schema": {"carrier": "string", "name": "string"},
    }  # fmt: skip
    pipeline["streams"]["names"] = {"topic": "carriers.names", "format": "json"}
    pipeline["operators"] += [
        {"name": "hour", "aggregate": "flights", "window": "timeInterval, intervalDuration(1h)",
         "output": {"hours": {"departures": "Count()"}}},
        {"name": "lately", "aggregate": "flights", "window": "tumbling, time(1d)",
         "output": {"lately": {"departures": "Count()"}}},
        {"name": "quiet", "aggregate": "flights", "window": "timeInterval, intervalDuration(1h), partitioned",
         "partition_by": ["origin"], "empty_panes": {"fill": "zero", "forget_after": "1d"},
         "output": {"quiet": {"origin": "origin", "departures": "Count()"}}},
        {"name": "names", "aggregate": "carriers", "window": "sliding, count(1), count(1)",
         "output": {"names": {"name": "Last(name)"}}},
    ]  # fmt: skip
    file = folder / "flights.yaml"
    file.write_text(yaml.safe_dump(pipeline, sort_keys=False))
    return file


@needs_prometheus
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("query", [pytest.param(query, id=title) for title, query in QUERIES])
def test_every_query_of_the_board_has_data(prometheus, query):
    """A number, that is: with a rate over twenty seconds for Grafana's own interval."""
    asked = query.replace("$__rate_interval", "20s").replace("$job", ".*").replace("$pipeline", ".*")
    found = prometheus.samples(asked)
    assert found
    assert any(number == number for number in found), f"only NaN: {asked}"  # noqa: PLR0124 - that is what NaN is


@needs_prometheus
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_every_metric_is_scraped(prometheus, metric):
    name = f"{metric.name}_count" if metric.type.__name__ == "Histogram" else metric.name
    assert prometheus.samples(name)


@needs_prometheus
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_what_it_shows_is_what_was_played(prometheus):
    assert prometheus.value(MARKS) == 4 * DAYS
    assert prometheus.value('sum(sluice_dead_letters_total{reason="not JSON"})') == 3
    assert prometheus.value('sluice_window_partitions{operator="delay"}') == 3
    assert prometheus.value('sluice_window_tuples{operator="delay"}') == 300
    assert prometheus.value('sluice_windows_fired_total{operator="day"}') == 3 * DAYS
    departures = prometheus.value('sluice_operator_tuples_read_total{operator="delay"}')
    assert prometheus.value('sluice_records_read_total{stream="flights",kind="tuple"}') == departures
    assert prometheus.value('sluice_windows_fired_total{operator="delay"}') == departures
    assert prometheus.value("sum(sluice_lag_records)") == 0


@needs_prometheus
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_alerts_are_evaluated_and_one_tells_of_the_dead_letters(prometheus):
    await_(lambda: prometheus.value('ALERTS{alertname="SluiceDeadLetters",alertstate="firing"}') == 1, str)
    (group,) = prometheus.ask("rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} == {"ok"}
    firing = {rule["name"]: rule for rule in group["rules"] if rule["state"] == "firing"}
    assert firing.keys() == {"SluiceDeadLetters"}
    links = {one["annotations"]["runbook_url"] for one in firing["SluiceDeadLetters"]["alerts"]}
    assert links == {"http://localhost:8000/alerts.html#sluicedeadletters"}
