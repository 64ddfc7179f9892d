"""Runs the program `sluice` without one of the measures that shorten a start or a batch:

python -m benchmarks.without MEASURE run FILE ...

`benchmarks.start_costs` compares such runs. Each function of MEASURES takes one measure out of the product.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

#: the environment variable with the folder of the archive of classes, in place of the one of the virtual environment
ARCHIVE = "BENCHMARK_CLASS_ARCHIVE"


def _set(module: str, name: str, value: object) -> None:
    setattr(import_module(module), name, value)


def _nothing(*_: object, **__: object) -> None:
    pass


def _spark(**properties: str) -> Callable[[], None]:
    """Sets properties of Spark; a double underscore stands for a dot."""
    return lambda: os.environ.update({f"SLUICE_SPARK_{name}": value for name, value in properties.items()})


def _written_command() -> None:
    _set("sluice.spark.java.java_command", "_is_configured", lambda *_: True)


def _early_java() -> None:
    start = import_module("sluice.running.service_start")
    early_processes = start.early_processes

    @contextmanager
    def after_the_modules(master: str, load: Callable[[], object]) -> Iterator[object]:
        loaded = load()
        import_module("sluice.spark.workers.loaded_modules")
        with early_processes(master, lambda: loaded) as both:
            yield both

    _set("sluice.running.service_start", "early_processes", after_the_modules)


def _forked_server() -> None:
    early = import_module("sluice.spark.pipeline.early_processes")
    fork_server = early.fork_server
    _set(early.__name__, "fork_server", lambda sockets, **_: fork_server(sockets, fork=False))


def _session_beside_checks() -> None:
    shared: Any = import_module("sluice.spark.pipeline.shared_session").SharedSession
    begin = shared.begin

    def waits(*arguments: object) -> object:
        future = begin(*arguments)
        future.result()
        return future

    shared.begin = waits


def _no_pandas() -> None:
    import_module("sluice.arrow_without_pandas")._NoPandas.find_spec = _nothing  # noqa: SLF001 - as above


def _early_work() -> None:
    def unwatched(_: object) -> None:
        raise OSError("not watched")

    _set("sluice.spark.lanes.early_work", "_watched", unwatched)


MEASURES: dict[str, Callable[[], None]] = {
    "nothing": _nothing,
    "archive of classes": lambda: _set("sluice.spark.java.class_archive", "options", lambda _: ""),
    "archive at its address": lambda: _set("sluice.spark.java.class_archive", "AT_ITS_ADDRESS", ""),
    "command written down": _written_command,
    "Java before the modules": _early_java,
    "classes loaded early": lambda: _set("sluice.spark.java.java_process", "load_early", _nothing),
    "forked fork server": _forked_server,
    "session beside the checks": _session_beside_checks,
    "pandas kept out": _no_pandas,
    "writer opened early": lambda: _set("sluice.spark.pipeline.pipeline_run", "open_early", _nothing),
    "kernels loaded early": lambda: _set("sluice.spark.pipeline.pipeline_run", "load_early", _nothing),
    "early work": _early_work,
    "no Java code of plans": _spark(sql_codegen_wholeStage="true"),
    "local file system": _spark(hadoop_fs_file_impl="org.apache.hadoop.fs.LocalFileSystem"),
    "no checksums of entries": _spark(sql_streaming_checkpoint_fileChecksum_enabled="true"),
    "25 ms between requests for offsets": _spark(sql_streaming_pollingDelay="10ms"),
    "no checksums and compression of shuffles": _spark(
        shuffle_compress="true", shuffle_checksum_enabled="true", sql_shuffle_orderIndependentChecksum_enabled="true",
        sql_shuffle_orderIndependentChecksum_enableFullRetryOnMismatch="true",
        sql_shuffle_orderIndependentChecksum_enableQueryLevelRollbackOnMismatch="true",
    ),
    "one daemon of Python workers": _spark(sql_execution_pyspark_udf_simplifiedTraceback_enabled="true"),
}  # fmt: skip


def main() -> None:
    folder = Path(os.environ[ARCHIVE])
    _set("sluice.spark.java.class_archive", "folder", lambda: folder)
    MEASURES[sys.argv.pop(1)]()
    import_module("sluice.cli").main()


if __name__ == "__main__":
    main()
