"""Settings of all tests: their order, their distribution over processes, shared fixtures."""

from __future__ import annotations

import gc
import importlib
import os
from collections import defaultdict
from itertools import chain

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests import examples, java_archive

# Objects made until all tests are collected stay to the end; walking them repeatedly took a sixth
# of the time.
gc.disable()
# New objects before a collection, and young collections before an old one; the default took a
# twentieth of the time.
RUBBISH = (10_000, 10, 50)

# The toy overlay is registered as an author would do it; so are other named modules.
with pytest.MonkeyPatch.context() as environment:
    environment.setenv("SHOAL_SYSTEMS", f"tests.flooding,{os.environ.get('SHOAL_SYSTEMS', '')}")
    importlib.import_module("shoal.overlays.registry")

# A process that starts Spark, and its children, load classes from the archive, if there is one.
java_archive.use_archive()

# Same examples on every run and machine; a failure prints the example that failed.
settings.register_profile(
    "shoal", max_examples=examples.examples(100), derandomize=True, deadline=None, print_blob=True
)
settings.load_profile("shoal")

# All tests that need Spark go to two processes, with or without a live network: starting it takes
# longer than most tests.
NEED_SPARK = {
    "spark": ("tests/pipeline/", "tests/cli/reproduce/", "tests/cli/files/test_spark.py"),
    "live spark": ("tests/spark/", "tests/docs/test_spark_pages.py"),
}
# These start a Spark of their own.
ELSEWHERE = (
    *("tests/pipeline/test_java.py", "tests/pipeline/test_interrupts.py"),
    "tests/pipeline/clusters/",
)
# Networks of processes: they mostly wait.
WAITING = (
    *("tests/live/", "tests/chaos/", "tests/runtime/", "tests/cli/", "tests/docs/"),
    *("tests/client/", "tests/experiments/live/", "tests/afternoon/"),
    *ELSEWHERE,
)
# Whole random networks: the longest of the tests that keep a core busy.
LONG = "tests/seeds/"
# Each of these tests has its own networks, so they may run in different processes.
APART = ("tests/afternoon/", "tests/chaos/", "tests/runtime/", "tests/seeds/")


def _scope(nodeid: str) -> str:
    """The group of tests that one process runs without interruption."""
    for scope, beginnings in NEED_SPARK.items():
        if nodeid.startswith(beginnings) and not nodeid.startswith(ELSEWHERE):
            return scope
    file, *_ = nodeid.partition("::")
    return nodeid if file.startswith(APART) else file


def _mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Spark tests first, then waiting and busy tests, each spread evenly over the run.

    So a core is idle less often, and the longest tests do not come last.
    """
    scopes: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        scopes[_scope(item.nodeid)].append(item)
    spark = [item for scope in NEED_SPARK for item in scopes.pop(scope, [])]
    waiting = [each for scope, each in scopes.items() if scope.startswith(WAITING)]
    busy = [each for scope, each in scopes.items() if not scope.startswith(WAITING)]
    waiting.sort(key=lambda each: each[0].nodeid.startswith(APART))
    busy.sort(key=lambda each: not each[0].nodeid.startswith(LONG))
    placed = [
        ((at + 0.5) / len(kind), each) for kind in (waiting, busy) for at, each in enumerate(kind)
    ]
    placed.sort(key=lambda each: each[0])
    return [*spark, *chain.from_iterable(each for _, each in placed)]


def pytest_configure(config: pytest.Config) -> None:
    examples.collects_soak = config.option.markexpr != "not soak"


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Skip the thousands of cases of long tests where only others run."""
    if collector.config.option.markexpr != "not soak":
        return None
    marks = getattr(obj, "pytestmark", ())
    return [] if any(mark.name == "soak" for mark in marks) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop cases where fewer are wanted, and order the rest for several processes."""
    items[:] = examples.chosen_cases(items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = _mixed(items)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(*RUBBISH)
    gc.enable()


class Files(LoadScopeScheduling):
    """Distributes files over several test processes, some test by test, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Files:
    config.option.loadscopereorder = False
    return Files(config, log)
