"""Compiles kernels: numba makes machine code of loops over arrays in plain Python.

Every kernel releases the interpreter's lock, and its machine code is kept beside the source for
the next process.  Only modules in this folder import numba, and each kernel has a naive twin in its
tests.  Where numba is not installed (`choice`), a kernel's twin in NumPy stands in its place, or
else the loop itself, interpreted.

>>> @kernel
... def double(number: int) -> int:
...     return 2 * number
>>> double(21)
42
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from shoal.matching.compiled.kernels.choice import compiles

_Function = TypeVar("_Function", bound=Callable[..., object])

COMPILES = compiles()
if COMPILES:
    import numba


def kernel(function: _Function) -> _Function:
    """The function, compiled for each combination of argument types when it is first called."""
    if not COMPILES:
        return function
    is_in_a_file = not function.__code__.co_filename.startswith("<")
    return cast(_Function, numba.njit(cache=is_in_a_file, nogil=True)(function))


def kernel_or(plain: _Function) -> Callable[[_Function], _Function]:
    """As `kernel`; where nothing is compiled, `plain` does the same with NumPy."""
    return kernel if COMPILES else lambda function: plain
