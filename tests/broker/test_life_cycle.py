"""The tables in docstrings equal those that machines use; SHOAL_DRAW=1 writes them anew."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from types import ModuleType

import pytest

from shoal.broker.life_cycle import LifeCycle
from shoal.broker.links import session
from shoal.clients import publisher
from shoal.mqtt.connection import connection
from shoal.overlays.coordination import coordinator
from shoal.overlays.self_organising.link_reconfiguration import steps

MODULES = [publisher, session, connection, steps, coordinator]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_docstring_has_the_machines_table(module: ModuleType) -> None:
    life: LifeCycle = module.LIFE  # type: ignore[type-arg]
    doc = module.__doc__ or ""
    old = "\n".join(line for line in doc.splitlines() if line.startswith("|"))
    assert doc.count(old) == 1, "one table stands together"
    if os.environ.get("SHOAL_DRAW") and old != life.drawn():
        path = Path(inspect.getsourcefile(module) or "")
        path.write_text(path.read_text().replace(old, life.drawn(), 1))
        old = life.drawn()
    assert old == life.drawn(), f"SHOAL_DRAW=1 pytest {__file__} draws it anew"
