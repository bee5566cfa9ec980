"""A standalone cluster: the same pairs as locally, or a refusal; never fewer pairs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.java_archive import quick_java
from tests.pipeline.clusters.on_a_cluster import PUBLICATIONS
from tests.pipeline.clusters.processes import run_script, standalone_cluster


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/cwd stands for a disk of its own")
def test_pairs_are_written_to_a_shared_disk_and_refused_for_another(tmp_path: Path) -> None:
    """Tasks that wrote into folders of their machines lost all pairs, without an error."""
    with standalone_cluster(tmp_path / "cluster") as master:
        printed = run_script(
            "tests.pipeline.clusters.on_a_cluster",
            *(master, str(tmp_path / "shared")),
            SPARK_SUBMIT_OPTS=quick_java(),
        )
    found = json.loads(printed)
    expected = PUBLICATIONS * 3 // 10
    assert (found["pairs"], found["tasks"], found["shuffles"]) == (expected, [32], "3")
    assert re.match(
        r"/proc/self/cwd/pairs is on a disk of this machine .* workers \(.*\) do not see: their "
        r"rows would be lost; give a folder on a disk that ",
        found["refused"],
    )
    assert found["tasks refused"].startswith("/proc/self/cwd is on a disk of this machine ")
    assert found["lost"].startswith(
        f"/proc/self/cwd/pairs: Spark's workers wrote {expected} rows, but 0 are there; give a "
    )
