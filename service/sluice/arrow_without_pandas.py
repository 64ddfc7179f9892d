"""Keeps pandas out of processes that need Arrow alone: its import takes 0.25 to 0.4 s and 30 MB in each of them.

pyarrow looks for pandas once, with the first array, and works without it if the import fails at that moment. Pandas can
be imported as usual after that. pyarrow then converts to pandas on request, but reads a pandas object as any other
sequence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa


def keep_pandas_out() -> None:
    """Lets pyarrow look for pandas now, in vain. Does nothing if pandas is imported already."""
    with pandas_kept_out():
        pa.array([None])


@contextmanager
def pandas_kept_out() -> Iterator[None]:
    """Imports of pandas fail in this context, as if it was not installed, unless it is imported already."""
    finder = _NoPandas()
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)
