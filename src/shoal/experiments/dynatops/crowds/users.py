"""Users with subscriptions that change: by chance, or with the places of users and their friends.

Source: DYNATOPS, section 6.1. The paper's location model was drawn from 3 million check-ins of
40,000 people; ours are drawn users that go to few places often and stay as long (section 6.1.1 and
figure 5 give both distributions), or check-ins from a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from shoal.experiments.dynatops.crowds.changes import (
    NO_TOPIC,
    CrowdChange,
    CrowdChanges,
    Numbers,
    Topics,
)
from shoal.experiments.dynatops.crowds.columns import check_columns
from shoal.experiments.dynatops.setting import DynatopsSetting
from shoal.matching.compiled.kernels.compiler import kernel

TOPICS_PER_USER = 5
TOPICS_PER_MODE = 10
FRIENDS = 4
HOURS_PER_DAY = 24
# Of visits, half are shorter than a day and a tenth longer than a week: a log-normal law has that
# with this spread.
MEDIAN_STAY_H, STAY_SPREAD = float(HOURS_PER_DAY), math.log(7) / 1.2816
# A user that has been to `cells` cells goes to a new one with a chance of RHO * cells ** -GAMMA,
# else to a former one, weighted by its visits: a third of pairs of user and cell are of one visit
# then.
RHO, GAMMA = 0.55, 0.6
# Cells are unequally liked; and most new ones are next to the last, of check-ins four in five.
LIKED, BESIDE = 1.0, 0.8

Random = np.random.Generator


class CrowdSlots(Protocol):
    """The changes of each hour."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sequence[CrowdChange] | CrowdChanges]: ...


class StudyCrowd(NamedTuple):
    """All users: their interests and places at first, and the changes in each slot.

    rates (topics): how often each is published to, in units of the mean; None: all alike.
    """

    wanted: Sequence[Topics]
    cells: Sequence[int]
    slots: CrowdSlots
    rates: npt.NDArray[np.float64] | None = None


def draw_crowd(setting: DynatopsSetting) -> StudyCrowd:
    """The users of a run, which depend on some of its parameters only; the last are kept."""
    drawn_by = {name: getattr(setting, name) for name in _DRAWN_BY}
    return _drawn(DynatopsSetting(what="up", **drawn_by))


# The parameters that users depend on.
_DRAWN_BY = (
    *("seed", "users_are", "topics", "columns", "rows", "users", "hours", "pattern"),
    *("change_rate", "steepness", "area", "trace"),
)


@lru_cache(maxsize=2)
def _drawn(setting: DynatopsSetting) -> StudyCrowd:
    random = np.random.default_rng([setting.seed, 1])
    if setting.users_are == "poisson":
        return _poisson(setting, random)
    visits = _read_visits(setting, random) if setting.trace else _draw_visits(setting, random)
    return _located(setting, visits, random)


def draw_visits(setting: DynatopsSetting) -> Visits:
    """The visits of drawn users with places, which `draw_crowd` draws as well."""
    return _draw_visits(setting, np.random.default_rng([setting.seed, 1]))


# --- by chance ----------------------------------------------------------------------------------


def _poisson(setting: DynatopsSetting, random: Random) -> StudyCrowd:
    """Each change replaces one topic by another of the same kind."""
    modes = random.integers(0, setting.topics // TOPICS_PER_MODE, setting.users)
    shares = (np.arange(setting.topics) + 2.0) ** -setting.steepness
    cumulated = np.cumsum(shares / shares.sum())

    def topic(user: int) -> int:
        if setting.pattern == "multimodal":
            return int(modes[user]) * TOPICS_PER_MODE + int(random.integers(TOPICS_PER_MODE))
        if setting.pattern == "zipf":
            return int(np.searchsorted(cumulated, random.random()))
        return int(random.integers(setting.topics))

    def other(user: int, than: Topics) -> int:
        while (found := topic(user)) in than:
            pass
        return found

    wanted: list[Topics] = []
    for user in range(setting.users):
        own: Topics = frozenset()
        while len(own) < TOPICS_PER_USER:
            own |= {other(user, own)}
        wanted.append(own)
    first, slots = list(wanted), []
    for _ in range(setting.hours):
        changes = []
        counts = random.poisson(setting.change_rate, setting.users)
        for user in np.repeat(np.arange(setting.users), counts).tolist():
            gone = sorted(wanted[user])[int(random.integers(TOPICS_PER_USER))]
            wanted[user] = wanted[user] - {gone} | {other(user, wanted[user])}
            changes.append(CrowdChange(user, wanted[user], user))
        slots.append(changes)
    return StudyCrowd(first, list(range(setting.users)), slots)


# --- by place -----------------------------------------------------------------------------------

# Of each user: when it comes to a cell, in hours, and to which; in order, the first before 0.
Visits = Sequence[Sequence[tuple[float, int]]]


def _located(setting: DynatopsSetting, visits: Visits, random: Random) -> StudyCrowd:
    """Users want the topics of their own places, and of their friends' places."""
    users = len(visits)
    friends = [random.choice(users, min(FRIENDS, users), replace=False).tolist() for _ in visits]
    coming = sorted((at, user, cell) for user, own in enumerate(visits) for at, cell in own[1:])
    there = [each for each in coming if each[0] < setting.hours]
    cells = [own[0][1] for own in visits]
    first = [_wanted(user, cells, friends) for user in range(users)]
    return StudyCrowd(first, cells, _LocatedSlots(setting.hours, cells, friends, there))


def _wanted(user: int, cells: Sequence[int], friends: Sequence[Sequence[int]]) -> Topics:
    return frozenset([cells[user], *(cells[friend] for friend in friends[user])])


class _LocatedSlots:
    """The changes of each hour, worked out as they are read: millions of them need gigabytes.

    `cells` are the users' at first; `coming` has times, users and their new cells, in order.
    """

    def __init__(
        self,
        hours: int,
        cells: Sequence[int],
        friends: Sequence[Sequence[int]],
        coming: Sequence[tuple[float, int, int]],
    ) -> None:
        self._cells = np.array(cells, np.int32)
        self._friends = np.array(friends, np.int32)
        times = np.array([at for at, _, _ in coming])
        self._ends = np.searchsorted(times, np.arange(1, hours + 1))
        self._users = np.array([user for _, user, _ in coming], np.int32)
        self._to = np.array([cell for _, _, cell in coming], np.int32)
        # Users by the friend that they follow, and where each friend's begin.
        of = self._friends.ravel()
        self._followers = np.argsort(of, kind="stable") // max(1, self._friends.shape[1])
        self._begins = np.searchsorted(np.sort(of), np.arange(len(cells) + 1))

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[CrowdChanges]:
        cells, begin = self._cells.copy(), 0
        for end in self._ends.tolist():
            users, to = self._users[begin:end], self._to[begin:end]
            begin = end
            yield CrowdChanges(
                *_with_followers(
                    users, to, cells, self._friends, self._followers, self._begins, NO_TOPIC
                )
            )


@kernel
def _with_followers(
    users: Numbers,
    to: Numbers,
    cells: Numbers,
    friends: Numbers,
    followers: npt.NDArray[np.int64],
    begins: npt.NDArray[np.int64],
    none: int,
) -> tuple[Numbers, Numbers, Numbers]:
    """The changes of users that come to other cells, and of their followers; `cells` changes."""
    most = len(users)
    for user in users:
        most += begins[user + 1] - begins[user]
    changed, at = np.empty(most, np.int32), np.empty(most, np.int32)
    wanted = np.full((most, friends.shape[1] + 1), none, np.int32)
    made = 0
    for number in range(len(users)):
        user = users[number]
        cells[user] = to[number]
        for place in range(begins[user] - 1, begins[user + 1]):
            each = user if place < begins[user] else followers[place]
            if place >= begins[user] and each == user:
                continue
            changed[made], at[made] = each, cells[each]
            wanted[made, 0] = cells[each]
            count = 1
            for friend in friends[each]:
                is_new = True
                for topic in wanted[made, :count]:
                    is_new = is_new and topic != cells[friend]
                if is_new:
                    wanted[made, count] = cells[friend]
                    count += 1
            made += 1
    return changed[:made], at[:made], wanted[:made]


def _draw_visits(setting: DynatopsSetting, random: Random) -> Visits:
    """Exploration and preferential return, from homes in cells that are unequally liked."""
    columns, rows = setting.columns, setting.rows
    liked = random.permutation((np.arange(columns * rows) + 1.0) ** -LIKED)
    liked /= liked.sum()
    homes = random.choice(columns * rows, setting.users, p=liked)
    return [list(_way(setting, int(home), liked, random)) for home in homes]


def _way(
    setting: DynatopsSetting, home: int, liked: npt.NDArray[np.float64], random: Random
) -> Iterator[tuple[float, int]]:
    """Draw a user's path, from some time before the beginning."""
    at, cell = -float(random.exponential(20 * HOURS_PER_DAY)), home
    known = {home: 1}
    while at < setting.hours:
        until = at + float(random.lognormal(math.log(MEDIAN_STAY_H), STAY_SPREAD))
        if until >= 0:
            yield at, cell
        at, cell = until, _next_cell(setting, cell, known, liked, random)
        known[cell] = known.get(cell, 0) + 1


def _next_cell(
    setting: DynatopsSetting,
    cell: int,
    known: dict[int, int],
    liked: npt.NDArray[np.float64],
    random: Random,
) -> int:
    others = [each for each in known if each != cell]
    if others and random.random() > RHO * len(known) ** -GAMMA:
        weights = np.array([known[each] for each in others], float)
        return others[int(random.choice(len(others), p=weights / weights.sum()))]
    if random.random() >= BESIDE:
        return int(random.choice(len(liked), p=liked))
    columns, rows = setting.columns, setting.rows
    beside = [
        y * columns + x
        for y in range(max(0, cell // columns - 1), min(rows, cell // columns + 2))
        for x in range(max(0, cell % columns - 1), min(columns, cell % columns + 2))
        if y * columns + x != cell
    ]
    weights = liked[beside]
    return int(random.choice(beside, p=weights / weights.sum()))


_WEEK_H = 7 * HOURS_PER_DAY
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_COLUMNS = ("user", "week_traj", "seq", "weekday", "minute_of_day", "lat", "lon")


def check_trace(path: Path) -> None:
    """ValueError unless the file has check-ins."""
    check_columns(path, _COLUMNS, "check-ins")


def _read_visits(setting: DynatopsSetting, random: Random) -> Visits:
    """Check-ins (user, week_traj, weekday, minute_of_day, lat, lon), weeks drawn anew for users.

    Each user chains weeks of one person, drawn with repetition, from a random time on.  Weekdays
    are names, or 0 to 6 from Monday on; a week may begin on any.
    """
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # pyarrow ships no types

    table = pq.read_table(Path(setting.trace), columns=list(_COLUMNS)).to_pandas()
    west, south, east, north = setting.area
    table = table[table.lon.between(west, east) & table.lat.between(south, north)]
    x = ((table.lon - west) / (east - west) * setting.columns).clip(0, setting.columns - 1)
    y = ((table.lat - south) / (north - south) * setting.rows).clip(0, setting.rows - 1)
    table["cell"] = y.astype(int) * setting.columns + x.astype(int)
    table["hour"] = _day_of(table.weekday) * HOURS_PER_DAY + table.minute_of_day / 60
    people = [
        [_from_first_day(week.hour, week.cell) for _, week in own.groupby("week_traj")]
        for _, own in table.sort_values(["user", "week_traj", "seq"]).groupby("user")
    ]
    found = []
    for _ in range(setting.users):
        weeks = people[int(random.integers(len(people)))]
        shift = float(random.uniform(0, _WEEK_H))
        own: list[tuple[float, int]] = []
        for number in range(-1, setting.hours // _WEEK_H + 2):
            for hour, cell in weeks[int(random.integers(len(weeks)))]:
                if not own or own[-1][1] != cell:
                    own.append((number * _WEEK_H + hour - shift, cell))
        last = max((index for index, (at, _) in enumerate(own) if at < 0), default=0)
        found.append(own[last:])
    return found


def _day_of(weekdays: Any) -> Any:
    """Numbers from Monday on; ValueError for an invalid day."""
    numbers: dict[Any, int] = {name: number for number, name in enumerate(_DAYS)}
    numbers |= {number: number for number in range(len(_DAYS))}
    found = weekdays.map(numbers)
    if found.isna().any():
        wrong = weekdays[found.isna()].iloc[0]
        raise ValueError(f"weekday: {wrong!r} is neither 0 to 6 nor Monday to Sunday")
    return found


def _from_first_day(hours: Iterable[float], cells: Iterable[int]) -> list[tuple[float, int]]:
    """A week in its order, by the hour since its first day began.

    >>> _from_first_day([6 * 24 + 20.0, 9.0], [1, 2])
    [(20.0, 1), (33.0, 2)]
    """
    found: list[tuple[float, int]] = []
    first, last, turned = 0.0, -1.0, 0
    for hour, cell in zip(hours, cells, strict=True):
        if last < 0:
            first = hour - hour % HOURS_PER_DAY
        elif hour < last:
            turned += _WEEK_H
        last = hour
        since = hour + turned - first
        if since < _WEEK_H:
            found.append((float(since), int(cell)))
    return found
