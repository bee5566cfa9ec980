"""Generated days: each command for each kind of broker, in each way, in each network.

| dimension | values |
| --- | --- |
| command | join, leave |
| role | founder (of the network file), joined, back (has joined, left and joined again) |
| way | once, twice (the same command again meanwhile), killed (in the middle, then again) |
| network | fresh, old (a broker was restarted, another has joined and left) |
| system | all |

A founder that left and runs again joins: it is linked, or its status says that it has left. At the
end of each day every broker receives from every broker. `make soak` plays all days.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.examples import at_length
from tests.live.membership.days import SYSTEMS, Day, begin_leave, day
from tests.runtime.forked import Forked

COMMANDS, ROLES = ("join", "leave"), ("founder", "joined", "back")
WAYS, NETWORKS = ("once", "twice", "killed"), ("fresh", "old")
ALL = list(product(SYSTEMS, COMMANDS, ROLES, WAYS, NETWORKS))
# Days in which each value of a dimension occurs, each of another system.
FEW = [
    ("tree", "join", "back", "killed", "old"),
    ("octopia", "leave", "joined", "twice", "fresh"),
    ("self_organising", "leave", "founder", "once", "fresh"),
]
NAMES = {"founder": "B2", "joined": "J1", "back": "J1"}


def _begin(today: Day, command: str, role: str) -> str:
    """Give the broker its role before the command; its name."""
    name = NAMES[role]
    if role != "founder":
        today.network.add_joiner(name, "B2")
    if role == "back" or (role, command) == ("joined", "leave"):
        today.run_again(name)
        today.are_linked()
    if role == "back" or (role, command) == ("founder", "join"):
        today.leave(name)
        today.are_linked()
    if (role, command) == ("back", "leave"):
        today.run_again(name)
        today.are_linked()
    return name


def _join(today: Day, name: str, way: str) -> None:
    if way == "killed":
        today.until_log(name, '"event": "link up"', lambda: today.network.run(name))
        today.network.kill(name)
    today.run_again(name)
    if way == "twice":
        assert today.is_refused_twice(name)


def _leave(today: Day, name: str, way: str) -> None:
    match way:
        case "once":
            today.leave(name)
        case "twice":
            _leave_twice(today, name)
        case "killed":
            begun: list[Forked] = []
            today.until_log(
                name, '"event": "leaving"', lambda: begun.append(begin_leave(today.network, name))
            )
            today.network.kill(name)
            today.run_again(name)
            begun[0].communicate(60)
            today.may_leave(name)
            today.leave(name)


def _leave_twice(today: Day, name: str) -> None:
    """Two operators order it; the broker may be gone before the second order arrives."""
    first, second = (begin_leave(today.network, name) for _ in range(2))
    said = {
        first: today.await_leave(name, first, is_only=False),
        second: "".join(second.communicate(60)),
    }
    assert 0 in {each.returncode for each in said}, said
    for command, words in said.items():
        assert command.returncode == 0 or "does not answer" in words, words


DO: dict[str, Callable[[Day, str, str], None]] = {"join": _join, "leave": _leave}


@pytest.mark.parametrize(
    ("system", "command", "role", "way", "network"),
    [*FEW, *at_length(each for each in ALL if each not in FEW)],
)
def test_a_generated_day_ends_with_all_brokers_linked(
    tmp_path: Path, system: str, command: str, role: str, way: str, network: str
) -> None:
    with day(tmp_path, system) as today:
        if network == "old":
            today.grow_old()
            today.join("J0", "B1")
            today.are_linked()
            today.leave("J0")
            today.are_linked()
        name = _begin(today, command, role)
        DO[command](today, name, way)
        if (command, role) == ("join", "founder") and today.is_back_or_reports_its_leave(name):
            return
        today.are_linked()
        today.publish_on()
        today.all_receive_from_all()
