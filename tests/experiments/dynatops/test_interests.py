"""Users of a file: each symbol of a user, from its first tweet to its last."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pytest

from shoal.experiments.dynatops.crowds.interests import check_interests, read_interests
from shoal.experiments.dynatops.grid import SCALES, Files, grid
from shoal.experiments.dynatops.model import DynatopsModel
from shoal.experiments.dynatops.runs import model_runs
from shoal.experiments.dynatops.setting import DynatopsSetting

# Ten days in ten slots.
SETTING = DynatopsSetting(
    what="up", seed=1, users_are="interests", brokers=4, topics=2, hours=10, cluster=2, rate=6.0
)
# User, symbol, tweets, and the hours of the first and the last.
TWEETS = [
    (7, "B", 3, 0, 0),
    (7, "A", 2, 25, 100),
    (9, "A", 1, 49, 239),
    (9, "rare", 1, 0, 240),
    (11, "B", 3, 120, 240),
]


def written(folder: Path) -> Path:
    path = folder / "interests.parquet"
    begin = pd.Timestamp("2014-01-01", tz="UTC")
    rows = [
        (user, symbol, tweets, begin + pd.Timedelta(hours=since), begin + pd.Timedelta(hours=until))
        for user, symbol, tweets, since, until in TWEETS
    ]
    pd.DataFrame(rows, columns=["user", "symbol", "tweets", "first", "last"]).to_parquet(path)
    return path


def test_each_wants_a_symbol_from_its_first_tweet_to_its_last(tmp_path: Path) -> None:
    path = written(tmp_path)
    check_interests(path)
    crowd = read_interests(msgspec.structs.replace(SETTING, trace=str(path)))
    # B, with the most tweets, is topic 0; an author of rare symbols only is no user.
    assert crowd.wanted == [{0}, set(), set()]
    assert crowd.rates is not None
    assert crowd.rates.tolist() == [6 / 4.5, 3 / 4.5]
    wanted, seen = list(crowd.wanted), []
    for changes in crowd.slots:
        for change in changes:
            wanted[change.user] = change.wanted
        seen.append([sorted(each) for each in wanted])
    assert [users[0] for users in seen] == [[0], [1], [1], [1], [1], [], [], [], [], []]
    assert [users[1] for users in seen] == [[]] * 2 + [[1]] * 8
    assert [users[2] for users in seen] == [[]] * 5 + [[0]] * 5


def test_topics_are_published_to_as_often_as_there_are_tweets(tmp_path: Path) -> None:
    setting = msgspec.structs.replace(SETTING, trace=str(written(tmp_path)))
    slots = DynatopsModel(setting, read_interests(setting)).run()
    assert [slot.events for slot in slots] == [pytest.approx(12.0)] * 10
    # In the last hour user 9 wants A, and 11 wants B: 6 x 3 / 4.5 and 6 x 6 / 4.5 a topic.
    assert slots[-1].deliveries == pytest.approx(12.0)
    assert slots[2].deliveries == pytest.approx(2 * 6 * 3 / 4.5)


def test_a_run_reads_its_file(tmp_path: Path) -> None:
    cells = grid(SCALES["small"], 1, "", Files(interests=str(written(tmp_path))))
    setting = next(cell.setting for cell in cells if cell.part == "interests")
    with pytest.raises(ValueError, match="3 symbols; 80 are needed"):
        read_interests(setting)
    cell = next(cell for cell in cells if cell.name.startswith("interests/bayeux"))
    tiny = cell._replace(setting=msgspec.structs.replace(setting, what="bayeux", topics=2))
    (run,) = model_runs([tiny], tmp_path)
    assert len(run.measure().slots) == setting.hours


def test_a_file_without_interests_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pd.DataFrame({"user": [1]}).to_parquet(path)
    with pytest.raises(ValueError, match="has no column symbol, tweets, first, last; interests"):
        check_interests(path)
