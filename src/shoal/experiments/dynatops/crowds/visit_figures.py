"""How drawn users visit cells in the three months of the paper's check-ins (6.1.1, figure 5).

Visits count from the beginning of the months, and a stay that they end is not counted: a stay is
from a user's arrival in a cell to its arrival in the next.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import msgspec

from shoal.experiments.dynatops.crowds.users import HOURS_PER_DAY, draw_visits
from shoal.experiments.dynatops.setting import DynatopsSetting

MONTHS_H = 92 * HOURS_PER_DAY
# Enough for a standard error of a point; the paper has 40,000.
USERS = 500
# The paper's cells, of one degree each, at every scale.
COLUMNS, ROWS = 60, 20
DRAWS = 5


class VisitFigures(NamedTuple):
    """Figures of one draw of users.

    visits   of a user, in the mean
    once     share of the pairs of user and cell that are of one visit
    short    share of stays below a day
    long     share of stays above a week
    """

    visits: float
    once: float
    short: float
    long: float


def visit_figures(setting: DynatopsSetting) -> list[VisitFigures]:
    """The figures of five draws, by the setting's seed and those that follow it."""
    months = msgspec.structs.replace(
        setting, what="dynatops", users=USERS, hours=MONTHS_H, columns=COLUMNS, rows=ROWS
    )
    seeds = range(setting.seed, setting.seed + DRAWS)
    return [_figures(msgspec.structs.replace(months, seed=seed)) for seed in seeds]


@lru_cache(DRAWS)
def _figures(setting: DynatopsSetting) -> VisitFigures:
    users = [[(at, cell) for at, cell in own if at >= 0] for own in draw_visits(setting)]
    pairs = [count for own in users for count in Counter(cell for _, cell in own).values()]
    stays = [after - before for own in users for (before, _), (after, _) in pairwise(own)]
    return VisitFigures(
        sum(map(len, users)) / len(users),
        sum(count == 1 for count in pairs) / len(pairs),
        sum(stay < HOURS_PER_DAY for stay in stays) / len(stays),
        sum(stay > 7 * HOURS_PER_DAY for stay in stays) / len(stays),
    )
