"""Places of the figures that the compiled loop and the simulator's objects share.

A broker's and a link's figures stand in a row of integers; objects read and write them through
`kept`.
"""

from __future__ import annotations

from typing import Any, Protocol

# Of a broker.
FREE_US = 0
CLIENT_FREE_US = 1
WINDOW_END_US = 2
IS_SHUT = 3
IS_MONITORED = 4
INPUT_QUEUE_US = 5
CLIENT_OUTPUT_US = 6
ONES_IN = 7
SEARCHED_US = 8
PUBLICATIONS_OUT = 9
DELIVERED = 10
TABLE_ROWS = 11
ONE_US = 12
SEARCH_NS = 13
CLIENT_TRANSMISSION_US = 14
BROKER_FIGURES = 15

# Of one direction of a link. Its target, and its source among the target's neighbours.
LINK_FREE_US = 0
WAITED_US = 1
SENT = 2
TARGET = 3
SOURCE_SLOT = 4
LATENCY_US = 5
TRANSMISSION_US = 6
LINK_FIGURES = 7

# Of the loop: the first event that it must not handle, by time and number; the number of the newest
# event; events in the heap; new events; deliveries and notes so far; what tracers do; the event or
# table that it gives back; the time of the next event, and of the last one.
LIMIT_US = 0
LIMIT_MADE = 1
MADE = 2
HEAP_SIZE = 3
PENDING = 4
DELIVERIES = 5
NOTES = 6
NOTING = 7
EVENT_US = 8
EVENT_LINK = 9
EVENT_ROW = 10
EVENT_HOPS = 11
EVENT_TABLE = 12
NEXT_US = 13
NOW_US = 14
LOOP_FIGURES = 15

# Of a table of rows: not read since a change, or with rows in an unknown order.
STALE = -1
UNORDERED = -2
# In the place of a neighbour: the subscriber is here.
HERE = -1


class HasFigures(Protocol):
    """An object with figures that the loop changes, from place `base` on."""

    figures: memoryview
    base: int


def kept(place: int) -> Any:
    """An attribute, an integer, that is such a figure."""

    def get(owner: HasFigures) -> int:
        figure: int = owner.figures[owner.base + place]
        return figure

    def put(owner: HasFigures, figure: int) -> None:
        owner.figures[owner.base + place] = figure

    return property(get, put)
