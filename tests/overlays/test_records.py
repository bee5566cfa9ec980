"""Records of brokers and clients, and the tables that they go to."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import msgspec

import shoal.broker
import shoal.clients
import shoal.overlays
from shoal.overlays.trace_tables import RECORDS


def test_every_record_has_a_table() -> None:
    """Also records that no short run makes; a row without a table is in no run's files."""
    modules = [
        name
        for package in (shoal.broker, shoal.clients, shoal.overlays)
        for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if name.endswith(".records")
    ]
    rows = {
        kind
        for name in modules
        for _, kind in inspect.getmembers(importlib.import_module(name), inspect.isclass)
        if issubclass(kind, msgspec.Struct) and kind.__module__ == name
    }
    assert len(modules) > 5
    assert rows == set(RECORDS.values())
