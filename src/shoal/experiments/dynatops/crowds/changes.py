"""Users' changes in one hour, as rows of arrays, which compiled loops read.

>>> both = CrowdChange(3, frozenset({7, 5}), 1), CrowdChange(4, frozenset(), 0)
>>> changes = CrowdChanges.of(both)
>>> changes.wanted.tolist()
[[5, 7], [-1, -1]]
>>> changes[0].user, sorted(changes[0].wanted), len(changes)
(3, [5, 7], 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Topics = frozenset[int]
Numbers = npt.NDArray[np.int32]

# In the place of a topic, behind a user's last one.
NO_TOPIC = -1


class CrowdChange(NamedTuple):
    """A user's new interests, and its cell."""

    user: int
    wanted: Topics
    cell: int


class CrowdChanges:
    """Changes in their order.

    users, cells  (changes)
    wanted        (changes, most topics of a user) new interests, with `NO_TOPIC` behind the last
    """

    def __init__(self, users: Numbers, cells: Numbers, wanted: Numbers) -> None:
        self.users = users
        self.cells = cells
        self.wanted = wanted

    @classmethod
    def of(cls, changes: Sequence[CrowdChange]) -> CrowdChanges:
        """The same as arrays."""
        users = np.array([each.user for each in changes], np.int32)
        cells = np.array([each.cell for each in changes], np.int32)
        return cls(users, cells, topic_rows([each.wanted for each in changes]))

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, number: int) -> CrowdChange:
        wanted = frozenset(self.wanted[number].tolist()) - {NO_TOPIC}
        return CrowdChange(int(self.users[number]), wanted, int(self.cells[number]))


def topic_rows(wanted: Sequence[Iterable[int]]) -> Numbers:
    """(users, most topics of a user): topics of each, ascending, and `NO_TOPIC` behind them."""
    rows = [sorted(each) for each in wanted]
    most = max(map(len, rows), default=0)
    found = np.full((len(rows), most), NO_TOPIC, np.int32)
    for number, row in enumerate(rows):
        found[number, : len(row)] = row
    return found
