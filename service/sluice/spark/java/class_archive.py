"""An archive of the Java classes that a service loads at its start (class data sharing), made in advance.

With the archive Java neither reads nor checks these classes again: a start takes half of Java's processor time. The
archive has 150 MB. It is valid for one Java and one set of jars; Java ignores an archive that does not fit.

`write_class_archive.py` writes it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

#: no message if the archive does not fit: Java then starts without it
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
#: By default Java maps an archive at a random address and adapts each pointer in it, which takes 0.2 s and 50 MB. With
#: this option it maps the archive at the address for which it was made. The address of these classes is no secret then.
AT_ITS_ADDRESS = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
#: the name of an archive, with its size in bytes: Java crashes if it maps a file that is too short
NAME = re.compile(r"classes-(\d+)\.jsa")


def folder() -> Path:
    """The folder of the archive, in the virtual environment. It has an archive only after `make class-archive`."""
    return Path(sys.prefix, "share", "sluice")


def options(where: Path) -> str:
    """Java's options that use the archive in this folder; "" if there is none, or none of the right size."""
    for file in where.glob("classes-*.jsa"):
        size = NAME.fullmatch(file.name)
        if size and file.stat().st_size == int(size[1]):
            return f"-XX:SharedArchiveFile={file} {AT_ITS_ADDRESS} {QUIET}"
    return ""
