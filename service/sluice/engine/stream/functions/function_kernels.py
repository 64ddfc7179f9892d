"""The kernels of the scalar functions, by the names that `model/functions.py` has for them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from sluice.engine.stream.functions import (
    conversions,
    decimal_functions,
    inside_functions,
    list_functions,
    number_functions,
    text_functions,
    time_functions,
    url_functions,
)
from sluice.engine.stream.functions.column_arguments import Column, Kernel, by_name
from sluice.engine.stream.functions.function_errors import Error


def same(value: Column) -> Column:
    return value


KERNELS: dict[str, Kernel] = {
    **by_name(same),
    **number_functions.KERNELS,
    **text_functions.KERNELS,
    **conversions.KERNELS,
    **time_functions.KERNELS,
    **list_functions.KERNELS,
    **inside_functions.KERNELS,
    **decimal_functions.KERNELS,
    **url_functions.KERNELS,
}
#: name of a kernel -> why it has no value; other kernels: NO_VALUE
ERRORS: Mapping[str, Error] = {**decimal_functions.ERRORS}


def kernel(name: str) -> Kernel:
    """The kernel with this name: ours, or the function of pyarrow.compute."""
    function: Kernel = KERNELS.get(name) or getattr(pc, name)
    return function
