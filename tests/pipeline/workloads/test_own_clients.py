"""A user's own clients: errors name the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal.frames.errors import TableError
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.schemas import OWN_SUBSCRIPTIONS
from shoal.pipeline.workloads.own_clients import OwnClients

BROKERS = [BrokerPlace(broker=name, latitude=None, longitude=None) for name in ("lyon", "brest")]


def test_the_file_of_subscriptions_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("id,filter,broker\nstorm,wind > 10,lyn\n")
    own = OwnClients.read(file, None, 1)
    told = f"{file}: 'storm': there is no broker 'lyn'; did you mean lyon?"
    with pytest.raises(TableError, match=rf"^{re.escape(told)}$"):
        own.subscription_rows(["lyon", "brest"], (0, 1), None)
    file.write_text("id,filter,to\nstorm,wind > 10,-1\n")
    with pytest.raises(TableError, match=rf"^{re.escape(str(file))}: all come and go outside"):
        OwnClients.read(file, None, 1).subscription_rows(["lyon"], (0, 1), None)


def test_the_file_of_publishers_is_named(tmp_path: Path) -> None:
    file = tmp_path / "who.csv"
    file.write_text("publisher,broker\nBrest,brst\n")
    own = OwnClients.read(None, file, 1)
    told = f"{file}: 'Brest': there is no broker 'brst'; did you mean brest?"
    with pytest.raises(TableError, match=rf"^{re.escape(told)}$"):
        own.publisher_rows([{"publisher": "Brest"}], BROKERS)
    told = f"{file}: 'Brest' has no publication in the window; there are Lyon"
    with pytest.raises(TableError, match=rf"^{re.escape(told)}$"):
        own.wanted_publishers({"Lyon"})


def test_rates_and_changes_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("id,filter,every,changed\na,TRUE,10s BY x,\nb,TRUE,,x BY 2\n")
    rows = OwnClients.read(path, None, 1).subscription_rows(["B1"], (0, 10), None)
    columns = [dict(zip(OWN_SUBSCRIPTIONS.names, row, strict=True)) for row in rows or ()]
    assert [(row["every"], row["changed"]) for row in columns] == [
        ("10s BY x", None),
        (None, "x BY 2"),
    ]
