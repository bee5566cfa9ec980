from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import shoal

SOURCES = Path(shoal.__file__).parent


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
