import io
import json
import logging
import re

import pytest

from sluice.ops.log_lines import VARIABLE, configure, configure_as_parent, configure_for_children, in_form


@pytest.fixture
def log():
    """Everything that is logged, after which the loggers are as they were."""
    logger, root = logging.getLogger("sluice"), logging.getLogger()
    before, roots = (logger.handlers, logger.propagate, logger.level), root.handlers
    stream = io.StringIO()
    configure("INFO", ["hunter2", "hunter2-and-more"], stream)
    yield stream
    (logger.handlers, logger.propagate, logger.level), root.handlers = before, roots


def test_an_event_is_a_line_of_pairs(log):
    logging.getLogger("sluice.kafka").warning(
        "created topic %s", "a", extra={"partitions": 2, "why": 'it "was" missing'}
    )
    (line,) = log.getvalue().splitlines()
    assert re.fullmatch(
        r"at=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=warning logger=sluice\.kafka "
        r'message="created topic a" partitions=2 why="it \\"was\\" missing"',
        line,
    )


def test_a_warning_of_another_package_is_a_line_of_the_same_form(log):
    logging.getLogger("py4j").info("sent")
    logging.warning("the connection is gone")  # noqa: LOG015 - as py4j does
    (line,) = log.getvalue().splitlines()
    assert line.endswith('level=warning logger=root message="the connection is gone"')


def test_an_error_stays_on_one_line(log):
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        logging.getLogger("sluice").exception("oh")
    (line,) = log.getvalue().splitlines()
    assert 'message=oh error="Traceback' in line
    assert "\\nZeroDivisionError: division by zero" in line


def test_secrets_are_masked_wherever_they_are(log):
    logging.getLogger("sluice").info("login %s", "hunter2", extra={"user": "u:hunter2-and-more"})
    assert "hunter2" not in log.getvalue()
    assert 'message="login ****" user=u:****\n' in log.getvalue()


def test_what_is_below_the_level_is_not_logged(log):
    logging.getLogger("sluice.kafka").debug("no")
    assert log.getvalue() == ""


def test_a_line_may_be_a_json_object(log):
    configure("WARNING", ["hunter2"], log, form="json")
    logging.getLogger("sluice").info("unheard")
    logging.getLogger("sluice").warning("password %s", "hunter2", extra={"batch": 3, "why": "hunter2"})
    line = json.loads(log.getvalue())
    assert line.pop("at").endswith("Z")
    assert line == {"level": "warning", "logger": "sluice", "message": "password ****", "batch": 3, "why": "****"}


@pytest.mark.usefixtures("log")
def test_a_line_of_another_program_stays_as_it_is_in_a_log_of_text():
    assert in_form("java.lang.Error: no", "spark", plain="sluice: no") == "sluice: no"


def test_a_line_of_another_program_becomes_an_object_in_a_log_of_json(log):
    configure("WARNING", ["hunter2"], log, form="json")
    line = json.loads(in_form("error with hunter2", "spark", plain="unused"))
    assert line.pop("at").endswith("Z")
    assert line == {"level": "error", "logger": "spark", "message": "error with ****"}


def test_processes_that_the_service_starts_log_in_the_same_form_and_level(log, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    configure_for_children("WARNING", "json")
    configure_as_parent(log)
    logging.getLogger("sluice").info("unheard")
    logging.getLogger("sluice").warning("heard")
    assert json.loads(log.getvalue())["message"] == "heard"


def test_a_process_that_no_service_started_logs_text(log, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    configure_as_parent(log)
    logging.getLogger("sluice").info("heard")
    assert log.getvalue().endswith("level=info logger=sluice message=heard\n")
