"""Plays an afternoon: each step, then a check of deliveries and of `shoal status`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from tests.afternoon import morning, outages
from tests.afternoon.network import COLUMNS, Network, StepError, network

STEPS = (*morning.STEPS, *outages.STEPS)
# Commands print as in a terminal of this width.
TERMINAL = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}


def play(folder: Path, system: str, factor: float = 1.0) -> list[str]:
    """Play all steps, each printed with its seconds; returns the faults.

    A fault does not end the afternoon, so later steps may show its consequences. Only brokers that
    do not start end it.
    """
    faults: list[str] = []
    with patch.dict(os.environ, TERMINAL), network(folder, system, factor) as found:
        for step in STEPS:
            faults += _play_step(found, step, checks=True)
            if faults and step is morning.start:
                return faults
        faults += _play_step(found, outages.end, checks=False)
    return faults


def _play_step(network: Network, step: Callable[[Network], None], *, checks: bool) -> list[str]:
    """The fault of a step; none if it succeeded."""
    begun_s = time.monotonic()
    fault = ""
    try:
        step(network)
        if checks:
            network.is_heard()
            network.is_whole()
    # A helper's assertion, a vanished file: all of them end a step, and none the afternoon.
    except (StepError, AssertionError, KeyError, OSError) as error:
        fault = f"{network.system}, {step.__name__}: {type(error).__name__}: {error}"
        network.ledger.begin_anew(with_all=True)
    seconds = time.monotonic() - begun_s
    print(f"{seconds:6.1f} s  {'FAULT' if fault else 'ok   '}  {step.__doc__}", flush=True)
    if fault:
        print(f"  {fault}", flush=True)
    return [fault] if fault else []
