"""Starts the service: first the processes that need none of its modules, and beside them the modules."""

from __future__ import annotations

from collections.abc import Callable

from sluice.processes import signals_end_at_once
from sluice.running.pipeline_folder import Found
from sluice.running.service_options import Options, Restart
from sluice.spark.pipeline.early_processes import early_processes


def start(found: Found, scan: Callable[[], Found | None] | None, options: Options, *, one: bool) -> None:
    """Runs the service of the pipelines that were found until it ends. `scan` gives those of a watched folder again.

    `one`: whether it is the service of one pipeline file.
    """
    only = next(iter(found.wanted.values())) if one else None
    with signals_end_at_once(), early_processes(options.master) as early:
        from sluice.arrow_without_pandas import keep_pandas_out  # noqa: PLC0415

        keep_pandas_out()
        from sluice.running.service import serve, serve_several  # noqa: PLC0415 - it takes 2 s, beside the start of Java

        if only and not options.standby and options.restart_of(only.pipeline) is Restart.NEVER:
            serve(only.pipeline, only.file, options, early)
        else:
            serve_several(found, scan, options, early, only=only if options.standby else None)
