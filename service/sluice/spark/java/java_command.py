"""The command that starts Java, kept from an earlier start.

`spark-submit` computes it: two shell scripts, and a Java program of their own. At each start they take 0.2 s, and a
quarter of a second of processor time, for a result that rarely changes. So a start keeps what became of the call, as
Linux shows it, and the next ones call that. All that the result may depend on is in the key of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

#: Java's program. In the command, Java's options are before it, and the program's arguments are after it
PROGRAM = "org.apache.spark.deploy.SparkSubmit"
#: Java warns at each start about this module, which only the machine learning of Spark would use
VECTORS = "--add-modules=jdk.incubator.vector"
#: the option with the folder of temporary files. It is kept without the folder, since services may have different ones
TEMPORARY = "-Djava.io.tmpdir="
#: beginnings of the names of the variables that the scripts and their program read
READ = ("SPARK_", "JAVA_", "HADOOP_", "YARN_")
#: variables that a shell sets for itself
OF_SHELL = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})


def temporary_files() -> str:
    """Java's option for temporary files: it ignores TMPDIR and uses /tmp, where they stay if the process is killed."""
    return f"{TEMPORARY}{tempfile.gettempdir()}"


class JavaCommand:
    """The command and the environment with which a Java process of Spark is started."""

    def __init__(
        self, spark_home: Path, properties: Mapping[str, str], environment: Mapping[str, str], folder: Path
    ) -> None:
        """`folder` is where a command is kept. With other properties or variables it is not used."""
        self._file = folder / "java-command.json"
        self._submitted = dict(environment)
        self._key = _key(spark_home, properties, environment)
        settings = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
        kept = self._read()
        self._is_kept = kept is not None
        start, added = kept or ([str(spark_home / "bin" / "spark-submit")], {})
        self.arguments = [*start, *settings, "pyspark-shell"]
        self.environment = self._submitted | added

    def _read(self) -> tuple[list[str], dict[str, str]] | None:
        """The kept command up to PROGRAM, and the variables that the scripts add; None if there is none to use."""
        try:
            kept = json.loads(self._file.read_bytes())
            start, added, fits = kept["start"], kept["variables"], kept["key"] == self._key is not None
        except (OSError, ValueError, TypeError, KeyError):
            return None
        if not fits or not os.access(start[0], os.X_OK):
            return None
        return [temporary_files() if one == TEMPORARY else one for one in start], added

    def keep(self, pid: int) -> None:
        """Keeps the command of this process, which takes calls, if `spark-submit` started it and Linux shows it."""
        if self._is_kept or self._key is None:
            return
        with suppress(OSError, ValueError):  # there is no /proc, or the folder cannot be written
            command, variables = _parts(pid, "cmdline"), _parts(pid, "environ")
            used = [one for one in command[: command.index(PROGRAM) + 1] if one != VECTORS]
            start = [TEMPORARY if one == temporary_files() else one for one in used]
            pairs = [one.split("=", 1) for one in variables if "=" in one]
            added = {
                name: value for name, value in pairs if name not in OF_SHELL and self._submitted.get(name) != value
            }
            part = self._file.with_suffix(f".{pid}")
            part.write_text(json.dumps({"key": self._key, "start": start, "variables": added}))
            part.replace(self._file)

    def forget(self) -> None:
        """Removes the command, if it is a kept one: Java did not start with it. The next start computes it anew."""
        if self._is_kept:
            self._file.unlink(missing_ok=True)


def _key(spark_home: Path, properties: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """A digest of all that the command depends on.

    None if that is not known: a user has configured Spark, whose scripts may do anything, or there is no launcher.
    """
    configuration = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
    launchers = [*spark_home.glob("jars/spark-launcher_*.jar")]
    if configuration.exists() or not launchers:
        return None
    programs = [[str(one.resolve()), one.stat().st_mtime_ns] for one in launchers]
    java = os.path.realpath(shutil.which("java", path=environment.get("PATH")) or "")
    read = {name: value for name, value in environment.items() if name.startswith(READ)}
    kept = {name: value.replace(temporary_files(), TEMPORARY) for name, value in properties.items()}
    content = json.dumps([programs, java, kept, read], sort_keys=True)
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


def _parts(pid: int, name: str) -> list[str]:
    return os.fsdecode(Path(f"/proc/{pid}/{name}").read_bytes()).split("\0")[:-1]
