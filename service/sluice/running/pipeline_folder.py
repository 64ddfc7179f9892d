"""The pipeline files of a service: loads them, and follows a folder of them.

After each change of the folder, `PipelineFolder` returns which pipelines should run. A change counts only when two
consecutive scans have found the same content, so a file that is being written is not read halfway. A wrong file changes
nothing: the pipeline of its last right version continues. The same holds for a file that is right by itself and
conflicts with another pipeline (planning/pipeline_set.py). The modules of the classes that a file names belong to its
content (FN15).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from sluice.api import class_loader
from sluice.config.load import load
from sluice.files import read_file
from sluice.model.errors import PipelineError, Problem, SluiceError
from sluice.model.kafka_properties import require_servers
from sluice.model.spec import Pipeline
from sluice.planning.pipeline_set import problems
from sluice.running.service_options import FolderError, files_in

LOGGER = logging.getLogger("sluice")


class Wanted(NamedTuple):
    """A pipeline that should run, the path of its file, and the digests of the modules of its classes."""

    file: str
    pipeline: Pipeline
    modules: Mapping[str, str | None] = MappingProxyType({})


@dataclass
class Loader:
    """Gives the pipeline of a file. Raises PipelineError if the file is wrong, and ServersError if neither the file nor
    the command line names a broker: without one the service would find that out only with its first request.

    overrides   keys that the command line sets in place of the file
    parent      folder with the checkpoints of all pipelines: each is in the subfolder with the name of its pipeline.
                None: each file names its own
    mask        called with all secrets of the files so far, before anything of a new file can get into the log
    """

    overrides: Mapping[str, Any]
    parent: Path | None
    mask: Callable[[Iterable[str]], None]
    _secrets: set[str] = field(default_factory=set)

    def __call__(self, path: Path) -> Pipeline:
        pipeline = load(path, overrides=self.overrides)
        self._secrets.update(pipeline.settings.kafka.secrets)
        self.mask(self._secrets)
        require_servers(pipeline.settings.kafka, str(path))
        if self.parent is None:
            return pipeline
        return replace(pipeline, settings=replace(pipeline.settings, checkpoint=str(self.parent / pipeline.name)))


def load_all(paths: Iterable[Path], load_one: Callable[[Path], Pipeline]) -> dict[str, Pipeline]:
    """The pipelines of all these files, by path. Raises PipelineError with the problems of all of them."""
    pipelines: dict[str, Pipeline] = {}
    wrong: list[Problem] = []
    for path in paths:
        try:
            pipelines[str(path)] = load_one(path)
        except PipelineError as error:
            wrong.extend(error.problems)
    wrong.extend(problems(pipelines))
    if wrong:
        raise PipelineError(wrong)
    return pipelines


class Found(NamedTuple):
    """The pipelines that should run, by name; and the wrong files, each with what is wrong with it."""

    wanted: dict[str, Wanted]
    wrong: dict[str, str]

    @classmethod
    def of(cls, pipelines: Mapping[str, Pipeline], wrong: Mapping[str, str] | None = None) -> Found:
        """`pipelines` has the right pipelines by the paths of their files."""
        return cls({pipeline.name: Wanted(file, pipeline) for file, pipeline in pipelines.items()}, dict(wrong or {}))


class _Content(NamedTuple):
    """The bytes of a file, and the digests of the modules of its classes."""

    data: bytes
    modules: Mapping[str, str | None]


@dataclass(slots=True)
class _File:
    """A file of the folder.

    read       its content at the last scan; None if it could not be read
    missing    whether the last scan did not find it
    loaded     the content from which `newest` and `problem` come
    newest     the pipeline of that content; None if the content is wrong
    problem    what is wrong with it
    accepted   the pipeline that should run: the newest one that was right and conflicted with no other
    modules    the names of the modules that `loaded` needs
    used       the digests of the modules of the last right content
    """

    read: _Content | None = None
    missing: bool = False
    loaded: _Content | None = None
    newest: Pipeline | None = None
    problem: str = ""
    accepted: Pipeline | None = None
    modules: Collection[str] = ()
    used: Mapping[str, str | None] = field(default_factory=dict)


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
                self._files[path] = _File(_content(path, ()))
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
            file = self._files.setdefault(path, _File())
            before, file.read = file.read, _content(path, file.modules)
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
        class_loader.forget_changed(file.modules)
        try:
            with class_loader.recording() as file.modules:
                file.newest, file.problem = self._load(path), ""
        except SluiceError as error:
            file.newest, file.problem = None, str(error)
        loaded = class_loader.digests_of(file.modules) | class_loader.loaded()
        modules = {module: loaded[module] for module in file.modules}
        file.read = file.loaded = None if file.read is None else file.read._replace(modules=modules)
        file.used = modules if file.newest is not None else file.used

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
                conflicts = problems({**accepted, str(path): candidate})
                if not conflicts:
                    accepted[str(path)] = candidate
                    break
                wrong.setdefault(str(path), "\n".join(map(str, conflicts)))
        for path, file in self._files.items():
            file.accepted = accepted.get(str(path))
        self._log_changes(wrong, accepted)
        folder = {str(self._folder): self._unreadable} if self._unreadable else {}
        chosen = Found.of(accepted, wrong | folder)
        used = {name: item._replace(modules=self._files[Path(item.file)].used) for name, item in chosen.wanted.items()}
        return chosen._replace(wanted=used)

    def _log_changes(self, wrong: Mapping[str, str], accepted: Mapping[str, Pipeline]) -> None:
        """Logs what is wrong with each file, once, and which files are right again."""
        for file, text in wrong.items():
            if self._logged.get(file) != text:
                result = "its last right version goes on" if file in accepted else "no pipeline of it runs"
                LOGGER.error("the pipeline file is wrong; %s", result, extra={"file": file, "problem": text})
        for file in sorted(self._logged.keys() - wrong.keys()):
            result = "its pipeline runs" if file in accepted else "its pipeline was removed"
            LOGGER.info("the pipeline file is not wrong any more; %s", result, extra={"file": file})
        self._logged = dict(wrong)


def _content(path: Path, modules: Collection[str]) -> _Content | None:
    try:
        return _Content(read_file(path), class_loader.digests_of(modules))
    except OSError:
        return None
