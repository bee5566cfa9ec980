"""Processes of these tests know the systems that this process knows."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def processes_know_own_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SYSTEMS", f"tests.flooding,{os.environ.get('SHOAL_SYSTEMS', '')}")
