"""Starts the service: first Java, which needs none of its modules, and beside it all that has to be imported."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from sluice.model.errors import SluiceError
from sluice.processes import signals_end_at_once
from sluice.running.own_folder import own_folder
from sluice.running.service_options import Options, Restart
from sluice.spark.pipeline.early_processes import early_processes

#: The open files that the process of the service and that of Java may need at least; the latter opens all jars of Spark
FEWEST_FILES = 512
#: the limit of open files with which no service of many pipelines has too few
MOST_FILES = 65536

if TYPE_CHECKING:
    from sluice.running.pipeline_folder import Found

    #: the pipelines at the start, and what gives those of a watched folder again
    Wished = tuple[Found, Callable[[], Found | None] | None]


def start(load: Callable[[], Wished], options: Options, *, one: bool) -> None:
    """Runs the service of the pipelines that `load` gives until it ends. An error of `load` ends the start.

    `one`: whether it is the service of one pipeline file.
    """
    require_open_files()
    with signals_end_at_once(), own_folder(), early_processes(options.master, load) as ((found, scan), early):
        from sluice.arrow_without_pandas import keep_pandas_out  # noqa: PLC0415

        keep_pandas_out()
        from sluice.running.service import serve, serve_several  # noqa: PLC0415 - it takes 2 s, beside the start of Java

        only = next(iter(found.wanted.values())) if one else None
        if only and not options.standby and options.restart_of(only.pipeline) is Restart.NEVER:
            serve(only.pipeline, only.file, options, early)
        else:
            serve_several(found, scan, options, early, only=only if options.standby else None)


class LimitError(SluiceError):
    exit_code = 3


def require_open_files() -> None:
    """Sets the limit of open files to MOST_FILES, or as near to it as allowed. Raises LimitError if Java needs more."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard < 0 else min(hard, MOST_FILES)  # -1: no limit
    if 0 <= limit < wanted:
        with suppress(OSError, ValueError):  # macOS may refuse what it says is allowed
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            limit = wanted
    if 0 <= limit < FEWEST_FILES:
        message = (
            f"a process may have only {limit} open files (ulimit -n): expected at least {FEWEST_FILES}, as Java opens "
            "all jars of Spark, and each client of Kafka its connections. Raise the limit in the shell or in the unit "
            "that starts the service (LimitNOFILE of systemd)"
        )
        raise LimitError(message)
