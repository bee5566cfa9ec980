"""Users with interests from tweets: the user, the stock, begin and end.

A pair of user and symbol is a subscription from its first tweet to its last.  The time of the file
is put into the hours of a run, so that a slot is some days of it; the most popular symbols are the
topics, and are published to as often as there are tweets of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shoal.experiments.dynatops.crowds.changes import CrowdChange, Topics
from shoal.experiments.dynatops.crowds.columns import check_columns
from shoal.experiments.dynatops.crowds.users import StudyCrowd
from shoal.experiments.dynatops.setting import DynatopsSetting

_COLUMNS = ("user", "symbol", "tweets", "first", "last")


def check_interests(path: Path) -> None:
    """ValueError unless the file has users, symbols and times."""
    check_columns(path, _COLUMNS, "interests")


def read_interests(setting: DynatopsSetting) -> StudyCrowd:
    """The crowd of the file; it has its own number of users.

    ValueError if it has fewer symbols than the run has topics.
    """
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # pyarrow ships no types

    table = pq.read_table(Path(setting.trace), columns=list(_COLUMNS)).to_pandas()
    tweets = table.groupby("symbol").tweets.sum().sort_index()
    if len(tweets) < setting.topics:
        raise ValueError(f"{setting.trace}: {len(tweets)} symbols; {setting.topics} are needed")
    popular = tweets.sort_values(ascending=False, kind="stable")[: setting.topics]
    topics = {symbol: number for number, symbol in enumerate(popular.index)}
    table = table[table.symbol.isin(popular.index)]
    users = {user: number for number, user in enumerate(sorted(table.user.unique()))}
    begin, end = _slots(table["first"], table, setting), _slots(table["last"], table, setting)
    coming: list[dict[int, set[int]]] = [{} for _ in range(setting.hours)]
    going: list[dict[int, set[int]]] = [{} for _ in range(setting.hours)]
    first: list[Topics] = [frozenset()] * len(users)
    pairs = zip(table.user.map(users), table.symbol.map(topics), begin, end, strict=True)
    for user, topic, since, until in pairs:
        if since:
            coming[since].setdefault(user, set()).add(topic)
        else:
            first[user] |= {topic}
        if until + 1 < setting.hours:
            going[until + 1].setdefault(user, set()).add(topic)
    wanted, slots = list(first), []
    for come, go in zip(coming, going, strict=True):
        changes = []
        for user in sorted({*come, *go}):
            wanted[user] = (wanted[user] - go.get(user, set())) | come.get(user, set())
            changes.append(CrowdChange(user, wanted[user], user))
        slots.append(changes)
    shares = popular.to_numpy(float)
    return StudyCrowd(first, list(range(len(users))), slots, shares / shares.mean())


def _slots(times: Any, table: Any, setting: DynatopsSetting) -> list[int]:
    """In which slot each time is."""
    begin, end = table["first"].min(), table["last"].max()
    parts = (times - begin) / max(end - begin, np.timedelta64(1, "s"))
    found: list[int] = (parts * setting.hours).astype(int).clip(0, setting.hours - 1).tolist()
    return found
