"""A folder of pipeline files: which pipelines should run, after each change of the folder.

A change counts only when two consecutive scans have found the same content, so a file that is being written is not read
halfway. A wrong file changes nothing: the pipeline of its last right version continues. The same holds for a file that
is right by itself and conflicts with another pipeline (planning/pipeline_set.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sluice.files import read_file
from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.planning.pipeline_set import problems
from sluice.running.pipeline_files import Wanted
from sluice.running.pipeline_paths import FolderError, files_in

LOGGER = logging.getLogger("sluice")


class Found(NamedTuple):
    """The pipelines that should run, by name; and the wrong files, each with what is wrong with it."""

    wanted: dict[str, Wanted]
    wrong: dict[str, str]

    @classmethod
    def of(cls, pipelines: Mapping[str, Pipeline], wrong: Mapping[str, str] | None = None) -> Found:
        """`pipelines` has the right pipelines by the paths of their files."""
        return cls({one.name: Wanted(file, one) for file, one in pipelines.items()}, dict(wrong or {}))


@dataclass(slots=True)
class _File:
    """A file of the folder.

    read       its content at the last scan; None if it could not be read
    missing    whether the last scan did not find it
    loaded     the content from which `newest` and `problem` come
    newest     the pipeline of that content; None if the content is wrong
    problem    what is wrong with it
    accepted   the pipeline that should run: the newest one that was right and conflicted with no other
    """

    read: bytes | None
    missing: bool = False
    loaded: bytes | None = None
    newest: Pipeline | None = None
    problem: str = ""
    accepted: Pipeline | None = None


class PipelineFolder:
    """The files of `folder`. `load` gives the pipeline of a file, or raises SluiceError."""

    def __init__(self, folder: Path, load: Callable[[Path], Pipeline]) -> None:
        self._folder, self._load = folder, load
        self._files: dict[Path, _File] = {}
        self._unreadable = ""
        #: the wrong files that the log has already
        self._logged: dict[str, str] = {}

    def first(self) -> Found:
        """The pipelines at the start. Raises FolderError if the folder cannot be read."""
        try:
            for path in files_in(self._folder):
                self._files[path] = _File(_content(path))
                self._read(path, self._files[path])
        except OSError as error:
            message = f"{self._folder}: expected a folder that can be read ({error.strerror})"
            raise FolderError(message) from error
        return self._chosen()

    def scan(self) -> Found | None:
        """The pipelines after a change of the folder; None if nothing has changed since the last call."""
        try:
            paths = files_in(self._folder)
        except OSError as error:
            return self._lost(f"the folder cannot be read ({error.strerror})")
        if self._unreadable:
            LOGGER.info("%s: the folder can be read again", self._folder)
        changed = bool(self._unreadable) or self._dropped(paths)
        self._unreadable = ""
        for path in paths:
            file = self._files.setdefault(path, _File(None))
            before, file.read = file.read, _content(path)
            if file.read == before and (file.read != file.loaded or (file.read is None and not file.problem)):
                self._read(path, file)
                changed = True
        return self._chosen() if changed else None

    def _dropped(self, paths: Collection[Path]) -> bool:
        """Drops the files that two consecutive scans have not found. Returns whether there are any.

        So a file that is renamed is dropped at the scan at which its new name counts.
        """
        dropped = [path for path, file in self._files.items() if file.missing and path not in paths]
        self._files = {path: file for path, file in self._files.items() if path not in dropped}
        for path, file in self._files.items():
            file.missing = path not in paths
        return bool(dropped)

    def _lost(self, why: str) -> Found | None:
        """Logs that the folder cannot be read. All pipelines continue meanwhile."""
        if self._unreadable == why:
            return None
        self._unreadable = why
        LOGGER.error("%s: %s; its pipelines continue", self._folder, why)
        return self._chosen()

    def _read(self, path: Path, file: _File) -> None:
        file.loaded = file.read
        try:
            file.newest, file.problem = self._load(path), ""
        except SluiceError as error:
            file.newest, file.problem = None, str(error)

    def _chosen(self) -> Found:
        """Accepts the newest right version of each file that conflicts with no pipeline that was accepted before it.

        Pipelines that run already come first, so that a new file never stops another pipeline.
        """
        accepted: dict[str, Pipeline] = {}
        wrong: dict[str, str] = {}
        undecided: dict[Path, _File] = {}
        for path, file in sorted(self._files.items()):
            if file.newest is None:
                wrong[str(path)] = file.problem
            if file.accepted is not None and file.newest in (None, file.accepted):
                accepted[str(path)] = file.accepted
            elif file.newest is not None:
                undecided[path] = file
        for path, file in undecided.items():
            for candidate in filter(None, (file.newest, file.accepted)):
                found = problems({**accepted, str(path): candidate})
                if not found:
                    accepted[str(path)] = candidate
                    break
                wrong.setdefault(str(path), "\n".join(map(str, found)))
        for path, file in self._files.items():
            file.accepted = accepted.get(str(path))
        self._log_changes(wrong, accepted)
        folder = {str(self._folder): self._unreadable} if self._unreadable else {}
        return Found.of(accepted, wrong | folder)

    def _log_changes(self, wrong: Mapping[str, str], accepted: Mapping[str, Pipeline]) -> None:
        """Logs what is wrong with each file, once, and which files are right again."""
        for file, text in wrong.items():
            if self._logged.get(file) != text:
                what = "its last right version goes on" if file in accepted else "no pipeline of it runs"
                LOGGER.error("the pipeline file is wrong; %s", what, extra={"file": file, "problem": text})
        for file in sorted(self._logged.keys() - wrong.keys()):
            what = "its pipeline runs" if file in accepted else "its pipeline was removed"
            LOGGER.info("the pipeline file is not wrong any more; %s", what, extra={"file": file})
        self._logged = dict(wrong)


def _content(path: Path) -> bytes | None:
    try:
        return read_file(path)
    except OSError:
        return None
