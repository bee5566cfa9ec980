"""Crowds: users change as in the paper, and the same seed draws the same ones."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from shoal.experiments.dynatops.crowds.changes import CrowdChange
from shoal.experiments.dynatops.crowds.users import (
    TOPICS_PER_MODE,
    TOPICS_PER_USER,
    _LocatedSlots,
    check_trace,
    draw_crowd,
)
from shoal.experiments.dynatops.setting import DynatopsSetting, Pattern

SMALL = DynatopsSetting(what="dynatops", seed=1, users=400, hours=30)
LOCATED = msgspec.structs.replace(SMALL, users_are="location", columns=12, rows=8)


@pytest.mark.parametrize("pattern", ["uniform", "zipf", "multimodal"])
def test_a_change_replaces_one_topic(pattern: Pattern) -> None:
    crowd = draw_crowd(msgspec.structs.replace(SMALL, pattern=pattern))
    wanted = list(crowd.wanted)
    assert all(len(own) == TOPICS_PER_USER for own in wanted)
    count = 0
    for changes in crowd.slots:
        for change in changes:
            assert len(change.wanted - wanted[change.user]) == 1
            assert len(wanted[change.user] - change.wanted) == 1
            wanted[change.user] = change.wanted
            count += 1
    assert count == pytest.approx(0.1 * 400 * 30, rel=0.1)
    if pattern == "multimodal":
        assert all(len({topic // TOPICS_PER_MODE for topic in own}) == 1 for own in wanted)
    popular = Counter(topic for own in wanted for topic in own)
    assert (popular[0] > 3 * popular[200] + 3) == (pattern == "zipf")


def test_users_want_topics_of_their_and_their_friends_places() -> None:
    crowd = draw_crowd(LOCATED)
    cells, wanted = list(crowd.cells), list(crowd.wanted)
    for changes in crowd.slots:
        for change in changes:
            cells[change.user] = change.cell
            wanted[change.user] = change.wanted
            assert change.cell in change.wanted
    assert all(cells[user] in own for user, own in enumerate(wanted))
    assert all(1 <= len(own) <= 1 + 4 for own in wanted)
    assert {topic for own in wanted for topic in own} <= set(range(12 * 8))


def test_friends_follow_a_user_that_comes_to_another_cell() -> None:
    """The compiled changes are those of sets, change by change."""
    crowd = draw_crowd(LOCATED)
    slots = crowd.slots
    assert isinstance(slots, _LocatedSlots)
    friends, cells = slots._friends.tolist(), list(crowd.cells)
    coming = iter(zip(slots._users.tolist(), slots._to.tolist(), strict=True))
    followed = 0
    for changes in slots:
        expected: list[CrowdChange] = []
        while len(expected) < len(changes):
            user, cells[user] = next(coming)
            followers = (each for each, own in enumerate(friends) if user in own)
            for each in dict.fromkeys((user, *followers)):
                wanted = frozenset([cells[each], *(cells[friend] for friend in friends[each])])
                expected.append(CrowdChange(each, wanted, cells[each]))
                followed += each != user
        assert list(changes) == expected
    assert followed > 500


def test_stays_are_as_long_as_the_papers() -> None:
    """Half are shorter than a day, a tenth longer than a week (6.1.1), as far as 60 days show."""
    crowd = draw_crowd(msgspec.structs.replace(LOCATED, users=1_000, hours=60 * 24))
    since: dict[int, int] = {}
    cells = list(crowd.cells)
    stays = []
    for hour, changes in enumerate(crowd.slots):
        for change in changes:
            if change.cell != cells[change.user]:
                cells[change.user] = change.cell
                if change.user in since:
                    stays.append(hour - since[change.user])
                since[change.user] = hour
    assert np.mean(np.array(stays) < 24) == pytest.approx(0.5, abs=0.05)
    assert np.mean(np.array(stays) > 168) == pytest.approx(0.09, abs=0.03)


def test_a_seed_draws_the_same_crowd() -> None:
    for setting in (SMALL, LOCATED):
        assert draw_crowd(setting) == draw_crowd(setting)
        other = draw_crowd(msgspec.structs.replace(setting, seed=2))
        assert other.wanted != draw_crowd(setting).wanted


@pytest.mark.parametrize("days", [(0, 2), ("Monday", "Wednesday"), ("Saturday", "Monday")])
def test_check_ins_are_read_from_a_file(tmp_path: Path, days: tuple[object, object]) -> None:
    path = tmp_path / "checkins.parquet"
    there, here = days
    rows = [
        # In New York on Monday noon, in San Francisco on Wednesday, every week; or later, so that
        # the second is in the next week.
        (user, week, number, weekday, 12 * 60, lat, lon)
        for user in range(3)
        for week in range(2)
        for number, (weekday, lat, lon) in enumerate([(there, 40.7, -74.0), (here, 37.8, -122.4)])
    ]
    names = ["user", "week_traj", "seq", "weekday", "minute_of_day", "lat", "lon"]
    pd.DataFrame(rows, columns=names).to_parquet(path)
    check_trace(path)
    crowd = draw_crowd(msgspec.structs.replace(LOCATED, trace=str(path), users=5, hours=24 * 14))
    new_york, san_francisco = 4 * 12 + 10, 3 * 12 + 0
    assert set(crowd.cells) <= {new_york, san_francisco}
    ways = [[(-1, cell)] for cell in crowd.cells]
    for hour, slot in enumerate(crowd.slots):
        for change in slot:
            if ways[change.user][-1][1] != change.cell:
                ways[change.user].append((hour, change.cell))
    for way in ways:
        # From New York to San Francisco in two days, back in five.
        apart = {later - earlier for (earlier, _), (later, _) in pairwise(way[1:])}
        assert apart <= {47, 48, 49, 119, 120, 121}
        assert len(way) >= 3


def test_an_invalid_day_is_named(tmp_path: Path) -> None:
    path = tmp_path / "checkins.parquet"
    names = ["user", "week_traj", "seq", "weekday", "minute_of_day", "lat", "lon"]
    pd.DataFrame([(1, 1, 0, "lundi", 5, 40.7, -74.0)], columns=names).to_parquet(path)
    with pytest.raises(ValueError, match="weekday: 'lundi' is neither 0 to 6 nor Monday to Sunday"):
        draw_crowd(msgspec.structs.replace(LOCATED, trace=str(path), users=1))


def test_a_file_without_check_ins_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pd.DataFrame({"user": [1]}).to_parquet(path)
    with pytest.raises(ValueError, match="has no column week_traj"):
        check_trace(path)
    path.write_text("no")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        check_trace(path)
