"""What every test shares."""

from __future__ import annotations

import importlib
import os

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# The toy overlay is one of the systems, as if its author had said so; so are others that are named.
with pytest.MonkeyPatch.context() as environment:
    environment.setenv("SHOAL_SYSTEMS", f"tests.flooding,{os.environ.get('SHOAL_SYSTEMS', '')}")
    importlib.import_module("shoal.overlays.registry")

# Same examples on every run and machine; a failure prints the example that failed.
settings.register_profile("shoal", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("shoal")

NEED_SPARK = ("tests/pipeline/", "tests/cli/")


class Files(LoadScopeScheduling):
    """Deals files out to several test processes; those that need Spark all to one.

    Each process would start a Spark of its own, which takes longer than most tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, *_ = nodeid.partition("::")
        return "spark" if file.startswith(NEED_SPARK) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Files:
    return Files(config, log)
