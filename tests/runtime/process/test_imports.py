"""A broker's process imports only modules that it needs, without 90 MB of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.overlays.registry import MODULES, SYSTEMS

# Modules of pipelines, notebooks, reports and large indexes.
TOO_LARGE = ("bokeh", "llvmlite", "matplotlib", "numba", "pandas", "pyarrow", "pyspark", "scipy")
STARTED = """
import asyncio, sys
from pathlib import Path
import shoal.cli.main
import shoal.cli.commands.serve
import shoal.runtime.serving
from shoal.broker.messages import Publish
from shoal.model import Publication
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import parse_network

async def run(folder):
    address = "127.0.0.1:0"
    brokers = [{"name": "B1", "peers": address, "mqtt": address, "admin": address}]
    access = {"anonymous": True}
    trace = {"folder": folder}
    network = parse_network({"name": "n", "brokers": brokers, "access": access, "trace": trace})
    service = BrokerService(network, "B1")
    await service.start()
    before = sorted(set(sys.modules))
    first = Publication(publisher="p", sequence=1, published_us=1, attributes={"a": 1})
    if folder:
        service.trace.published(Publish((first,)))
    await service.stop()
    after = sorted(set(sys.modules))
    print(" ".join(before))
    print(" ".join(after))

asyncio.run(run(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """The modules of a tracing broker after its start, and after rows were written."""
    folder = tmp_path_factory.mktemp("trace")
    found = imported(str(folder))
    assert list(Path(folder).glob("publications.parquet/*.parquet"))
    return found


def imported(trace_folder: str) -> tuple[set[str], set[str]]:
    command = [sys.executable, "-c", STARTED, trace_folder]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    before, after = found.stdout.splitlines()
    return set(before.split()), set(after.split())


def test_a_broker_starts_without_optional_modules(
    modules: tuple[set[str], set[str]],
) -> None:
    before, _ = modules
    assert [name for name in TOO_LARGE if name in before] == []


def test_a_trace_is_written_without_pandas(modules: tuple[set[str], set[str]]) -> None:
    _, after = modules
    assert [name for name in TOO_LARGE if name in after] == ["pyarrow"]


def test_only_the_running_system_is_imported() -> None:
    before, _ = imported("")
    folders = {name.split(".")[2] for name in before if name.startswith("shoal.overlays.")}
    systems = {module.split(".")[2] for module in MODULES.values()}
    assert folders & systems == {"tree"}


def test_a_system_is_listed_by_its_own_name() -> None:
    assert [SYSTEMS[name].name for name in SYSTEMS] == list(SYSTEMS)
