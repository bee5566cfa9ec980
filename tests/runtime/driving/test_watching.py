"""A machine is told the loads of its links, window by window."""

from __future__ import annotations

import asyncio

from shoal.broker.effects import Input, LinkLoad, Loads
from shoal.runtime.driving.watching import Watching
from tests.runtime.virtual_loop import Cable, VirtualLoop

WINDOW_S = 0.1


class Links:
    """The total and the present content of each link's queue."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, int]] = {"B": (0, 0)}

    def delays_us(self) -> dict[str, int]:
        return {}

    def queues(self) -> dict[str, tuple[int, int]]:
        return dict(self.found)


def _no_cable(left: str, right: str) -> Cable:
    raise AssertionError(f"{left} - {right}")


def _told(windows: list[dict[str, tuple[int, int]]]) -> list[list[Input]]:
    """The loads reported at the end of each window with these queues."""
    said: list[Input] = []
    rounds = []

    async def play() -> None:
        watching = Watching(said.append)
        links = watching.links = Links()
        watching.watch_loads(round(WINDOW_S * 1e6))
        await asyncio.sleep(WINDOW_S / 2)
        for window in windows:
            links.found = window
            said.clear()
            await asyncio.sleep(WINDOW_S)
            rounds.append(list(said))
        watching.stop()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(_no_cable)) as runner:
        runner.run(play())
    return rounds


def _loads(**links: LinkLoad) -> list[Input]:
    return [Loads(links)]


def test_each_window_with_traffic_is_reported() -> None:
    told = _told([{"B": (5, 2)}, {"B": (10, 4)}, {"B": (15, 6)}, {"B": (20, 8)}])
    assert told == [
        _loads(B=LinkLoad(5, 3, 2)),
        _loads(B=LinkLoad(5, 3, 4)),
        _loads(B=LinkLoad(5, 3, 6)),
        _loads(B=LinkLoad(5, 3, 8)),
    ]


def test_an_unchanged_load_is_reported_again() -> None:
    told = _told([{"B": (5, 0)}, {"B": (10, 0)}])
    assert told == [_loads(B=LinkLoad(5, 5, 0))] * 2


def test_windows_without_traffic_are_reported_once() -> None:
    told = _told([{"B": (0, 0)}, {"B": (0, 0)}, {"B": (4, 4)}, {"B": (4, 4)}, {"B": (4, 4)}])
    quiet, stuck = LinkLoad(0, 0, 0), LinkLoad(0, 0, 4)
    assert told == [_loads(B=quiet), [], _loads(B=LinkLoad(4, 0, 4)), _loads(B=stuck), []]


def test_new_and_lost_links_are_reported() -> None:
    told = _told([{"B": (0, 0)}, {"B": (0, 0), "C": (0, 0)}, {"B": (0, 0)}, {"B": (0, 0)}])
    quiet = LinkLoad(0, 0, 0)
    assert told == [_loads(B=quiet), _loads(B=quiet, C=quiet), _loads(B=quiet), []]
