"""How kernels are compiled: loops over arrays in plain Python, made machine code by numba.

Every kernel releases the interpreter's lock, and its machine code is kept beside the source for
the next process.  Only modules in this folder import numba, and each kernel has a naive twin in its
tests.

>>> @kernel
... def double(number: int) -> int:
...     return 2 * number
>>> double(21)
42
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., object])


def kernel(function: _Function) -> _Function:
    """The function, compiled for each combination of argument types when it is first called."""
    is_in_a_file = not function.__code__.co_filename.startswith("<")
    return cast(_Function, numba.njit(cache=is_in_a_file, nogil=True)(function))
