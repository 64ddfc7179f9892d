"""The log on stderr: one line of key=value pairs for each event, in which secrets are masked."""

from __future__ import annotations

import contextvars
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterable
from typing import IO, Any

from sluice.json_texts import visible
from sluice.model.secrets import MASK, masked

#: the environment variable that passes the level and the form of the log on to processes that the service starts
VARIABLE = "SLUICE_LOG"
#: a value that needs no quotes
PLAIN = re.compile(r"[^\s=\"\\]+")
#: the pipeline that the present thread works for, "" if none. It is the field `pipeline` of the lines of this thread
PIPELINE = contextvars.ContextVar("pipeline", default="")
#: attributes of every log record; all others are the event's own fields (`extra=`)
STANDARD = {*logging.makeLogRecord({}).__dict__, "message", "asctime"}


def configure(
    level: str = "INFO", secrets: Iterable[str] = (), stream: IO[str] | None = None, *, form: str = "text"
) -> None:
    """Writes the messages of logger `sluice` and of all loggers below it to stderr, in the format of `Lines`, or with
    the form "json" in the format of `JsonLines`.

    Warnings and errors of other packages go there too. Without a handler of the root logger, Python would write them
    as plain text, with stack traces over many lines.

    Masks all `secrets`, and the values of ${...} in the pipeline file (model/secrets.py).
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(secrets) if form == "json" else Lines(secrets))
    logger = logging.getLogger("sluice")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level)
    logging.getLogger().handlers = [handler]


def configure_for_children(level: str, form: str) -> None:
    """Makes `configure_as_parent` configure the log with this level and form in the processes that this one starts."""
    os.environ[VARIABLE] = f"{level} {form}"


def configure_as_parent(stream: IO[str] | None = None) -> None:
    """Configures the log of a process that the service started; as text with level INFO if no service started it."""
    level, _, form = os.environ.get(VARIABLE, "INFO text").partition(" ")
    configure(level, stream=stream, form=form)


def in_form(text: str, name: str = "sluice", *, plain: str, level: int = logging.ERROR) -> str:
    """A line that no logger wrote, in the form of the log: with the form "json" an object with `name` as its logger;
    otherwise `plain`.
    """
    formatter = next((handler.formatter for handler in logging.getLogger("sluice").handlers), None)
    if not isinstance(formatter, JsonLines):
        return plain
    return formatter.format(logging.LogRecord(name, level, "", 0, text, None, None))


class Lines(logging.Formatter):
    """A line: `at=2013-01-01T10:00:00.123Z level=info logger=sluice.kafka message="created topic a" batch=3`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        # The longest secret comes first, because one secret may contain another.
        longest_first = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._secret = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in self.fields(record).items())

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The fields of the line. Secrets are masked; numbers and booleans stay what they are."""
        pipeline_field = {"pipeline": PIPELINE.get()} if PIPELINE.get() else {}
        extra = pipeline_field | {name: value for name, value in record.__dict__.items() if name not in STANDARD}
        return {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._masked(record.getMessage()),
            **{n: v if isinstance(v, bool | int | float) else self._masked(str(v)) for n, v in extra.items()},
            **({"error": self._masked(self.formatException(record.exc_info))} if record.exc_info else {}),
        }

    def _masked(self, text: str) -> str:
        text = masked(text)
        return self._secret.sub(MASK, text) if self._secret else text


class JsonLines(Lines):
    """A line that is a JSON object with the same fields: `{"at": "2013-01-01T10:00:00.123Z", "level": "info", ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(json.dumps(self.fields(record), ensure_ascii=False))


def _moment(seconds: float) -> str:
    milliseconds = int(seconds * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(milliseconds // 1000))}.{milliseconds % 1000:03}Z"


def _quoted(text: str) -> str:
    """The text as it is, or in quotes. No text ends the line or has an effect on a terminal that shows it."""
    return text if text.isprintable() and PLAIN.fullmatch(text) else visible(json.dumps(text, ensure_ascii=False))
