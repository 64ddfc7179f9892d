"""The log on stderr: one line of key=value pairs for each event, in which secrets are masked."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterable
from typing import IO, Any

from sluice.model.secrets import MASK, masked

#: a value that needs no quotes
PLAIN = re.compile(r"[^\s=\"\\]+")
#: attributes of every log record; all others are the event's own fields (`extra=`)
STANDARD = {*logging.makeLogRecord({}).__dict__, "message", "asctime"}


def configure(
    level: str = "INFO", secrets: Iterable[str] = (), stream: IO[str] | None = None, *, form: str = "text"
) -> None:
    """Writes the messages of logger `sluice` and of all loggers below it to stderr, in the format of `Lines`, or with
    the form "json" in that of `JsonLines`.

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


class Lines(logging.Formatter):
    """A line: `at=2013-01-01T10:00:00.123Z level=info logger=sluice.kafka message="created topic a" batch=3`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        # The longest secret comes first, because one secret may contain another.
        known = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._secret = re.compile("|".join(map(re.escape, known))) if known else None

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in self.fields(record).items())

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The fields of the line. Secrets are masked; numbers and booleans stay what they are."""
        own = {name: value for name, value in record.__dict__.items() if name not in STANDARD}
        return {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._masked(record.getMessage()),
            **{n: v if isinstance(v, bool | int | float) else self._masked(str(v)) for n, v in own.items()},
            **({"error": self._masked(self.formatException(record.exc_info))} if record.exc_info else {}),
        }

    def _masked(self, text: str) -> str:
        text = masked(text)
        return self._secret.sub(MASK, text) if self._secret else text


class JsonLines(Lines):
    """A line that is a JSON object with the same fields: `{"at": "2013-01-01T10:00:00.123Z", "level": "info", ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), ensure_ascii=False)


def _moment(seconds: float) -> str:
    milliseconds = int(seconds * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(milliseconds // 1000))}.{milliseconds % 1000:03}Z"


def _quoted(text: str) -> str:
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
