"""The window engine. Compiled kernels are kept between runs, in a folder named after their sources.

numba notices a change in the file of a kernel, not one in a file that the kernel calls into: with one folder for each
state of the sources, what runs is always what stands here. Where the installed package cannot be written, the user's
cache serves.
"""

import hashlib
import os
from pathlib import Path


def _kernels() -> Path:
    here = Path(__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))).hexdigest()[:16]
    writable = os.access(here, os.W_OK)
    cache = (
        here / "__pycache__" if writable else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sluice"
    )
    return cache / f"kernels-{digest}"


os.environ.setdefault("NUMBA_CACHE_DIR", str(_kernels()))
