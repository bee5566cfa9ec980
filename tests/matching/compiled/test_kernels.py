"""Kernels: equal answers with and without numba, and few imports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import shoal

SOURCES = Path(shoal.__file__).parent


def test_kernels_without_numba_answer_the_same() -> None:
    """The naive twins of this folder's tests check NumPy's answers, too."""
    here = Path(__file__).parent
    names = ("boxes", "kernels_answers", "kernels_boxes", "kernels_tables")
    tests = [here / f"test_{name}.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", *map(str, tests)]
    found = subprocess.run(
        [*command, "-k", "not machines_without and not 3000"],
        env=os.environ | {"SHOAL_KERNELS": "plain"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


BATCHES = """
import hashlib
import numpy as np
from shoal.language import parse
from shoal.matching import MatchIndex
from shoal.matching.compiled.kernels.compiler import COMPILES

random = np.random.default_rng(1)
low = random.normal(0, 1, (9_000, 2))
boxes, tables = MatchIndex(), MatchIndex()
boxes.add_ranges(np.arange(9_000), "ab", low, low + 1)
for at in range(3_000):
    tables.add(at, parse(f"k = {at % 5} AND a > {at / 1000 - 1}"))
batch = {"a": random.normal(0, 1, 500), "b": random.normal(0, 1, 500)}
batch["k"] = random.integers(0, 6, 500)
print(COMPILES)
for index in (boxes, tables):
    offsets, ids = index.match_batch(batch)
    print(len(ids) > 10_000, hashlib.sha256(offsets.tobytes() + ids.tobytes()).hexdigest())
"""


def test_members_keep_one_order_with_and_without_numba() -> None:
    compiled, plain = (
        subprocess.run(
            [sys.executable, "-c", BATCHES],
            env=os.environ | {"SHOAL_KERNELS": kernels},
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for kernels in ("compiled", "plain")
    )  # fmt: skip
    assert (compiled[0], plain[0]) == ("True", "False")
    assert compiled[1:] == plain[1:]
    assert compiled[1::2] == ["True", "True"]


def test_only_kernels_import_numba() -> None:
    importers = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if re.search(r"^\s*(import|from) numba", path.read_text("utf-8"), re.MULTILINE)
    }
    assert importers == {
        "matching/compiled/kernels/compiler.py",
        "matching/compiled/kernels/vectors.py",
    }


def test_matching_one_publication_at_a_time_does_without_numba() -> None:
    program = (
        "import sys; from shoal.matching import MatchIndex; index = MatchIndex(); "
        "from shoal.model import EVERYTHING; index.add(1, EVERYTHING); "
        "assert index.match({}) == [1]; assert index.match_batch([{}])[1].tolist() == [1]; "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
