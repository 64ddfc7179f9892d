"""Starts the service: first Java, which needs none of its modules, and beside it all that has to be imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluice.processes import signals_end_at_once
from sluice.running.own_folder import own_folder
from sluice.running.service_options import Options, Restart
from sluice.spark.pipeline.early_processes import early_processes

if TYPE_CHECKING:
    from sluice.running.pipeline_folder import Found

    #: the pipelines at the start, and what gives those of a watched folder again
    Wished = tuple[Found, Callable[[], Found | None] | None]


def start(load: Callable[[], Wished], options: Options, *, one: bool) -> None:
    """Runs the service of the pipelines that `load` gives until it ends. An error of `load` ends the start.

    `one`: whether it is the service of one pipeline file.
    """
    with signals_end_at_once(), own_folder(), early_processes(options.master, load) as ((found, scan), early):
        from sluice.arrow_without_pandas import keep_pandas_out  # noqa: PLC0415

        keep_pandas_out()
        from sluice.running.service import serve, serve_several  # noqa: PLC0415 - it takes 2 s, beside the start of Java

        only = next(iter(found.wanted.values())) if one else None
        if only and not options.standby and options.restart_of(only.pipeline) is Restart.NEVER:
            serve(only.pipeline, only.file, options, early)
        else:
            serve_several(found, scan, options, early, only=only if options.standby else None)
