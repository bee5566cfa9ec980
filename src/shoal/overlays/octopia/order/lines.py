"""Lines: reordering buffers of a sequencer, one for each publisher with numbered publications.

A line exists for a publisher of a host, from the first number until numbering has ended and all
publications have come. Out-of-order publications are held, unsettled, until earlier ones have come.

| input | action |
| --- | --- |
| the next number | it is released, and the held ones behind it |
| a later number | it is held |
| an earlier number | it is released: it was skipped, or is a retransmission |
| numbering begins | all unnumbered ones of the host are in; the first number is known |
| it began at another sequencer | any publication is held for `doubt_us` |
| its host will announce that all earlier ones have come | the same, for `order_us` |
| it has announced that | all held ones are released, each in its order |
| numbering ends | later unnumbered ones of the host follow the last number |
| the link to the host is lost | held ones are dropped, or returned (`sequencer.py`) |
| nothing has come for `order_us` | gaps before publications that waited so long are skipped |
| a link of the region is lost | gaps may be losses: `doubt_us`, unless the host is linked |

A linked host gets publications in transit back, and sends them again, with the same numbers.
So a publication waits for at most `order_us` since the line last advanced, and at most `MOST` are
held. A publication that has just come waits for a gap as long as any other: the missing one may be
only a little behind, on its detour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from math import inf
from typing import NamedTuple

from shoal.broker.effects import Key
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId

# The most held publications at a broker, some hundred bytes each beside their content.
MOST = 50_000

# A publisher, and its host.
Name = tuple[BrokerId, ClientId]


class LineEntry(NamedTuple):
    """A publication that is released; with its number, if any, and its key if it was held.

    `source` is the neighbour from which it came; at `due_us` earlier gaps are skipped.
    """

    routed: RoutedPublication
    hops: int
    key: Key | None = None
    number: int | None = None
    source: BrokerId = ""
    due_us: int = 0


class _OrderLine:
    __slots__ = (
        "beside",
        "due_us",
        "expected",
        "has_waited",
        "held",
        "is_late",
        "is_promised",
        "jumps",
        "unnumbered",
    )

    def __init__(self) -> None:
        # The next number to release; None: the first number is not known yet.
        self.expected: int | None = None
        self.held: dict[int, list[LineEntry]] = {}
        # Unnumbered ones, before or behind the numbered, in their order; while the line is late.
        self.beside: list[LineEntry] = []
        # The number of the next unnumbered one; None while all are numbered.
        self.unnumbered: int | None = None
        # After the last number of a numbering: the first of the next one.
        self.jumps: dict[int, int] = {}
        self.due_us = 0
        # No host will send the first number; and whether unnumbered ones have waited long enough
        # for that.
        self.is_late = self.has_waited = False
        # But their host will announce that all earlier ones have come.
        self.is_promised = False

    @property
    def waits(self) -> bool:
        return bool(self.held or self.beside)

    @property
    def is_unknown(self) -> bool:
        """Whether anything may precede the next publication, numbered or not."""
        is_unknown = self.is_late and self.expected is None and not self.has_waited
        return is_unknown or bool(self.beside)

    @property
    def waiting(self) -> list[LineEntry]:
        """All that is held."""
        return [*chain.from_iterable(self.held.values()), *self.beside]

    def hasten(self, due_us: int) -> None:
        """Reduce the deadline of held publications to this time."""
        self.due_us = min(self.due_us, due_us)
        self.held = {number: _hastened(those, due_us) for number, those in self.held.items()}
        self.beside = _hastened(self.beside, due_us)

    def wait(self, due_us: int) -> None:
        """Set the deadline of held publications to this time."""
        self.due_us = due_us
        for number, those in self.held.items():
            self.held[number] = [each._replace(due_us=due_us) for each in those]
        self.beside = [each._replace(due_us=due_us) for each in self.beside]


def _hastened(entries: list[LineEntry], due_us: int) -> list[LineEntry]:
    return [each if each.due_us <= due_us else each._replace(due_us=due_us) for each in entries]


def _host_number(entry: LineEntry) -> int:
    """Their host numbers all that it is given."""
    return entry.routed.message_id.number


class OrderLines:
    """The lines at one broker."""

    def __init__(
        self,
        order_us: int,
        doubt_us: int,
        is_linked: Callable[[BrokerId], bool] = lambda host: False,
    ) -> None:
        self._order_us = order_us
        self._doubt_us = doubt_us
        self._is_linked = is_linked
        self._lines: dict[Name, _OrderLine] = {}
        # Of each host, how many of its publishers have one.
        self._counts: Counter[BrokerId] = Counter()
        self._held = 0
        self._keys = 0
        # The time until which gaps may be losses with a link.
        self._doubtful_until_us = 0

    def __len__(self) -> int:
        """Number of held publications."""
        return self._held

    def has_of(self, host: BrokerId) -> bool:
        """Whether any of a host's publishers has a line."""
        return host in self._counts

    @property
    def due_us(self) -> int | None:
        """When the next gap is skipped; None if nothing is held."""
        return min((each.due_us for each in self._lines.values() if each.waits), default=None)

    # --- inputs -------------------------------------------------------------------------------

    def begin(
        self, host: BrokerId, client: ClientId, number: int | None, now_us: int
    ) -> list[LineEntry]:
        """Numbers begin with this one (None: elsewhere); returns the released publications."""
        line = self._line(host, client)
        found: list[LineEntry] = []
        if number is None:
            line.unnumbered = None
            line.hasten(now_us + self._doubt_us)
            line.is_late, line.has_waited, line.is_promised = True, False, False
            return []
        if line.expected is not None and line.unnumbered is not None:
            line.jumps[line.unnumbered] = number
        else:
            line.jumps.clear()
            found = self._take_entries(line, [each for each in line.held if each < number], inf)
            line.expected = number
        line.unnumbered = None
        return found + self._release_next((host, client), line, now_us)

    def open(
        self, host: BrokerId, client: ClientId, number: int | None, now_us: int
    ) -> list[LineEntry]:
        """All before this number have come (None: the host will announce it).

        Returns the released ones.
        """
        line = self._line(host, client)
        if number is None:
            if line.is_late and line.expected is None:
                line.is_promised = True
                line.wait(now_us + self._order_us)
            return []
        found = self._take_entries(line, [each for each in line.held if each < number], inf)
        line.jumps = {each: to for each, to in line.jumps.items() if each >= number}
        line.expected = number if line.expected is None else max(number, line.expected)
        line.is_late = line.is_promised = False
        found += self._release_next((host, client), line, now_us)
        if line.waits:
            line.wait(self._due_us(host, line, now_us))
        return found

    def end(self, host: BrokerId, client: ClientId, number: int, now_us: int) -> list[LineEntry]:
        """Later publications over the host's link are unnumbered; returns the released ones."""
        line = self._line(host, client)
        line.unnumbered = number
        if line.expected is None and not line.beside:
            line.expected = min(line.held, default=number)
        return self._release_next((host, client), line, now_us)

    def arrive(
        self,
        host: BrokerId,
        client: ClientId,
        number: int | None,
        entry: LineEntry,
        now_us: int,
        *,
        is_near: bool = True,
    ) -> tuple[Key | None, list[LineEntry]]:
        """A publication has come (None: unnumbered); its key if it is held, and the released ones.

        Not near: this is no sequencer of its host's region, where the start of numbers need not be
        sent.
        """
        if number is None:
            line = self._lines.get((host, client))
            if line is not None and line.unnumbered is None and line.is_unknown:
                return self._hold_entry((host, client), line, None, entry, now_us)
            if line is None or line.unnumbered is None:
                return None, [entry]
            number = line.unnumbered
            line.unnumbered += 1
        else:
            line = self._line(host, client)
            line.is_late |= line.expected is None and not is_near
        if line.expected is not None and number <= line.expected:
            if number < line.expected:
                return None, [entry]
            line.expected += 1
            line.due_us = self._due_us(host, line, now_us)
            return None, [entry, *self._release_next((host, client), line, now_us)]
        return self._hold_entry((host, client), line, number, entry, now_us)

    def _hold_entry(
        self, name: Name, line: _OrderLine, number: int | None, entry: LineEntry, now_us: int
    ) -> tuple[Key, list[LineEntry]]:
        due_us = self._due_us(name[0], line, now_us)
        if not line.waits:
            line.due_us = due_us
        self._keys += 1
        key = ("line", str(self._keys))
        those = line.beside if number is None else line.held.setdefault(number, [])
        those.append(entry._replace(key=key, due_us=due_us))
        self._held += 1
        return key, self._release_held(
            name, line, line.waiting, now_us
        ) if self._held > MOST else []

    def _line(self, host: BrokerId, client: ClientId) -> _OrderLine:
        line = self._lines.get((host, client))
        if line is None:
            line = self._lines[host, client] = _OrderLine()
            self._counts[host] += 1
        return line

    def _forget_line(self, name: Name) -> _OrderLine:
        host, _ = name
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
        return self._lines.pop(name)

    def _release_next(self, name: Name, line: _OrderLine, now_us: int) -> list[LineEntry]:
        """Release publications in order."""
        found: list[LineEntry] = []
        while line.expected is not None:
            if line.expected in line.jumps:
                line.expected = line.jumps.pop(line.expected)
            elif line.expected in line.held:
                found += self._take_entries(line, [line.expected])
                line.expected += 1
            else:
                break
        if line.expected is not None and line.expected == line.unnumbered:
            if line.held:
                # Of a numbering that has not begun yet.
                line.expected = line.unnumbered = None
            else:
                found += self._take_entries(line, (), inf)
                self._forget_line(name)
        elif found:
            line.due_us = self._due_us(name[0], line, now_us)
        return found

    def _take_entries(
        self, line: _OrderLine, numbers: Iterable[int], until: float = -1
    ) -> list[LineEntry]:
        """Take these, and unnumbered ones sent up to `until`, or before any of these."""
        found = [entry for number in sorted(numbers) for entry in line.held.pop(number)]
        if line.beside:
            last = max((until, *map(_host_number, found)))
            found += [each for each in line.beside if _host_number(each) <= last]
            line.beside = [each for each in line.beside if _host_number(each) > last]
            found.sort(key=_host_number)
        self._held -= len(found)
        return found

    # --- gaps ---------------------------------------------------------------------------------

    def _due_us(self, host: BrokerId, line: _OrderLine, now_us: int) -> int:
        is_doubtful = (line.is_late and not line.is_promised) or (
            now_us < self._doubtful_until_us and not self._is_linked(host)
        )
        return now_us + (self._doubt_us if is_doubtful else self._order_us)

    def doubt(self, now_us: int) -> None:
        """A link of the region is lost: gaps may be losses, unless their host is linked.

        A linked host gets the publications back when the lost link is given up.
        """
        due_us = now_us + self._doubt_us
        self._doubtful_until_us = due_us
        for (host, _), line in self._lines.items():
            if not self._is_linked(host):
                line.hasten(due_us)

    def lost(self, host: BrokerId) -> list[LineEntry]:
        """The link to a host is lost: remove its lines; returns the held publications."""
        found: list[LineEntry] = []
        for name in [each for each in self._lines if each[0] == host]:
            line = self._forget_line(name)
            found += self._take_entries(line, list(line.held), inf)
        return found

    def give_up(self, now_us: int) -> list[LineEntry]:
        """Skip gaps that are overdue; returns the released publications."""
        found: list[LineEntry] = []
        for name, line in list(self._lines.items()):
            if line.waits and line.due_us <= now_us:
                due = [each for each in line.waiting if each.due_us <= now_us]
                found += self._release_held(name, line, due, now_us)
        return found

    def _release_held(
        self, name: Name, line: _OrderLine, due: list[LineEntry], now_us: int
    ) -> list[LineEntry]:
        """Gaps before these are losses: release all held ones up to the last of them.

        One loss may come with others, and the waits would add up.
        """
        last = max(map(_host_number, due), default=-1)
        numbers = [number for number, those in line.held.items() if _host_number(those[-1]) <= last]
        found = self._take_entries(line, numbers, last)
        if numbers:
            behind = max(numbers)
            line.jumps = {number: to for number, to in line.jumps.items() if number > behind}
            line.expected, line.is_late = behind + 1, False
            found += self._release_next(name, line, now_us)
        elif due and not line.held:
            line.has_waited = True
        if line.waits:
            line.due_us = min(each.due_us for each in line.waiting)
        return found
