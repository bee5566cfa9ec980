"""The last step of a leaving broker: it ends its links."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

from shoal.runtime.leaving import Leaving


class Links:
    """Each link ends a round after its request; meanwhile another broker links itself."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self._there = ["B1", "B2"]
        self._late = ["B3", "B1"]

    @property
    def neighbours(self) -> list[str]:
        there, self._there = self._there, [each for each in self._there if each not in self.ended]
        return list(there)

    def end(self, neighbour: str) -> None:
        self.ended.append(neighbour)
        if self._late:
            self._there.append(self._late.pop(0))


def test_links_that_come_while_others_end_are_ended_too() -> None:
    """Otherwise it waits for them for ever."""
    links: Any = Links()
    leaving = Leaving(Mock(), Mock(), links, *(Mock() for _ in range(5)))
    asyncio.run(asyncio.wait_for(leaving._end_links(), 10))
    assert {*links.ended} == {"B1", "B2", "B3"}


def test_two_orders_at_once_begin_one_leave() -> None:
    """The second order joins the leave that the first one requested."""

    async def begin_twice() -> int:
        forgotten = asyncio.Event()

        async def forget(name: str) -> str:
            await forgotten.wait()
            return ""

        begun = []
        leaving: Any = Leaving(*(Mock() for _ in range(8)))
        leaving._forgetting.forget = forget
        leaving._links.no_joiners = {}
        leaving._obstacles = leaving._why_not_dead = lambda without: []
        leaving._watch = Mock()

        async def leave() -> None:
            begun.append(1)

        leaving._leave = leave
        orders = [asyncio.create_task(leaving.begin(["B7"])) for _ in range(2)]
        await asyncio.sleep(0)
        forgotten.set()
        assert await asyncio.gather(*orders) == ["", ""]
        await asyncio.sleep(0)
        return len(begun)

    assert asyncio.run(begin_twice()) == 1
