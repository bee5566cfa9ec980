"""Boost's R-tree as a peer of the match index: `boost_rtree.cpp`, compiled on demand."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

SOURCE = Path(__file__).with_name("boost_rtree.cpp")
DIMENSIONS = 4  # as in the source

_Doubles = npt.NDArray[np.float64]
_Numbers = npt.NDArray[np.int64]


class NotBuiltError(Exception):
    """The reason why the peer is missing: no compiler, or no Boost."""


class BoostTree:
    """A packed tree of boxes, low and high (boxes, DIMENSIONS); NotBuiltError if it cannot be
    built.
    """

    def __init__(self, low: _Doubles, high: _Doubles) -> None:
        self._library = _library()
        low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
        self._tree = self._library.tree_of(low.ctypes.data, high.ctypes.data, len(low))
        if not self._tree:
            raise MemoryError
        self._found = np.empty(2**16, np.int64)

    def find(self, points: _Doubles) -> tuple[_Numbers, _Numbers]:
        """Offsets and boxes, as `MatchIndex.match_batch` has them, until the next call."""
        points = np.ascontiguousarray(points)
        offsets = np.zeros(len(points) + 1, np.int64)
        given = (self._tree, points.ctypes.data, len(points), offsets[1:].ctypes.data)
        count = self._library.find(*given, self._found.ctypes.data, len(self._found))
        if count > len(self._found):
            self._found = np.empty(count + count // 8, np.int64)
            count = self._library.find(*given, self._found.ctypes.data, len(self._found))
        return offsets, self._found[:count]


def _library() -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NotBuiltError("no C++ compiler")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "boost_rtree.so")
        command = [compiler, "-std=c++17", "-O3", "-march=native", "-DNDEBUG", "-w"]
        command += ["-shared", "-fPIC", "-o", str(made), str(SOURCE)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            missing = "boost/geometry" in run.stderr and "No such file" in run.stderr
            first = next((line for line in run.stderr.splitlines() if "error" in line), "it failed")
            raise NotBuiltError("no Boost (libboost-dev)" if missing else f"{compiler}: {first}")
        library = ctypes.CDLL(str(made))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.tree_of.restype, library.tree_of.argtypes = pointer, [pointer, pointer, number]
    library.find.restype = number
    library.find.argtypes = [pointer, pointer, number, pointer, pointer, number]
    return library
