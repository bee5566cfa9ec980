"""At a gate: numbered publications of each publisher, let into the cluster in their order.

A line stands for a publisher of a host, from the first number until numbering has ended and all has
come.  What comes out of turn is held, unsettled, until what went before has come.

| input | does |
| --- | --- |
| numbered, the next | is let in, and what was held behind it |
| numbered, a later one | is held |
| numbered, an earlier one | is let in: its turn was given up, or it comes once more |
| numbering begins | all that the host has sent without numbers is in; the first one is known |
| it began at another gate | what comes, numbered or not, is held for `doubt_us` |
| its host will say when all of before has come | the same, for `order_us` |
| it has | all that is held goes on, each in its turn |
| numbering ends | what the host sends from now on without numbers stands behind the last number |
| the link to the host is lost | what is held is given up, or back (`gate.py`) |
| nothing has come for `order_us` | what is missing before those that waited so long is given up |
| a link of the region is lost | what is missing may be lost with it: `doubt_us`, unless its host is
linked: what was on its way comes back to that, which sends it again, under the same number |

So a publication waits for at most `order_us` since the line last went on, and at most `MOST` are
held.  What has just come waits for what is missing before it as long as any other: on its way round
that may be behind by a little only.
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

# So many are held at a broker, some hundred bytes each beside their content.
MOST = 50_000

# A publisher, and its host.
Name = tuple[BrokerId, ClientId]


class Entry(NamedTuple):
    """A publication that may go on; with its number, if any, and its key if it was held.

    `source` is the neighbour from which it came; at `due_us` what is before it is given up.
    """

    routed: RoutedPublication
    hops: int
    key: Key | None = None
    number: int | None = None
    source: BrokerId = ""
    due_us: int = 0


class _Line:
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
        # The next number to be let in; None: it has not been said where numbers begin.
        self.expected: int | None = None
        self.held: dict[int, list[Entry]] = {}
        # Without a number, before or behind those that have one, in their order; where it is late.
        self.beside: list[Entry] = []
        # The number of what comes next without one; None while all is numbered.
        self.unnumbered: int | None = None
        # After the last number of a numbering: the first of the next one.
        self.jumps: dict[int, int] = {}
        self.due_us = 0
        # Nobody will say where numbers begin; and what has none has waited long enough for that.
        self.is_late = self.has_waited = False
        # But their host will say when all that was before has come.
        self.is_promised = False

    @property
    def waits(self) -> bool:
        return bool(self.held or self.beside)

    @property
    def is_unknown(self) -> bool:
        """Whether anything may be before what comes, with and without numbers."""
        is_unknown = self.is_late and self.expected is None and not self.has_waited
        return is_unknown or bool(self.beside)

    @property
    def waiting(self) -> list[Entry]:
        """All that is held."""
        return [*chain.from_iterable(self.held.values()), *self.beside]

    def hasten(self, due_us: int) -> None:
        """Let what is held wait no longer than until then."""
        self.due_us = min(self.due_us, due_us)
        self.held = {number: _hastened(those, due_us) for number, those in self.held.items()}
        self.beside = _hastened(self.beside, due_us)

    def wait(self, due_us: int) -> None:
        """Let what is held wait until then."""
        self.due_us = due_us
        for number, those in self.held.items():
            self.held[number] = [each._replace(due_us=due_us) for each in those]
        self.beside = [each._replace(due_us=due_us) for each in self.beside]


def _hastened(entries: list[Entry], due_us: int) -> list[Entry]:
    return [each if each.due_us <= due_us else each._replace(due_us=due_us) for each in entries]


def _host_number(entry: Entry) -> int:
    """Their host numbers all that it is given."""
    return entry.routed.message_id.number


class Lines:
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
        self._lines: dict[Name, _Line] = {}
        # Of each host, how many of its publishers have one.
        self._counts: Counter[BrokerId] = Counter()
        self._held = 0
        self._keys = 0
        # Until when what is missing may have been lost with a link.
        self._doubtful_until_us = 0

    def __len__(self) -> int:
        """How many publications are held."""
        return self._held

    def has_of(self, host: BrokerId) -> bool:
        """Whether any of a host's publishers has a line."""
        return host in self._counts

    @property
    def due_us(self) -> int | None:
        """When what is missing is given up somewhere; None if nothing is held."""
        return min((each.due_us for each in self._lines.values() if each.waits), default=None)

    # --- what comes ---------------------------------------------------------------------------

    def begin(
        self, host: BrokerId, client: ClientId, number: int | None, now_us: int
    ) -> list[Entry]:
        """Numbers begin with this one, None: began elsewhere; what may go on."""
        line = self._line(host, client)
        found: list[Entry] = []
        if number is None:
            line.unnumbered = None
            line.hasten(now_us + self._doubt_us)
            line.is_late, line.has_waited, line.is_promised = True, False, False
            return []
        if line.expected is not None and line.unnumbered is not None:
            line.jumps[line.unnumbered] = number
        else:
            line.jumps.clear()
            found = self._take(line, [each for each in line.held if each < number], inf)
            line.expected = number
        line.unnumbered = None
        return found + self._go_on((host, client), line, now_us)

    def open(
        self, host: BrokerId, client: ClientId, number: int | None, now_us: int
    ) -> list[Entry]:
        """All before this number has come, None: the host will say when; what may go on."""
        line = self._line(host, client)
        if number is None:
            if line.is_late and line.expected is None:
                line.is_promised = True
                line.wait(now_us + self._order_us)
            return []
        found = self._take(line, [each for each in line.held if each < number], inf)
        line.jumps = {each: to for each, to in line.jumps.items() if each >= number}
        line.expected = number if line.expected is None else max(number, line.expected)
        line.is_late = line.is_promised = False
        found += self._go_on((host, client), line, now_us)
        if line.waits:
            line.wait(self._due_us(host, line, now_us))
        return found

    def end(self, host: BrokerId, client: ClientId, number: int, now_us: int) -> list[Entry]:
        """What follows over the host's link is not numbered; what may go on."""
        line = self._line(host, client)
        line.unnumbered = number
        if line.expected is None and not line.beside:
            line.expected = min(line.held, default=number)
        return self._go_on((host, client), line, now_us)

    def arrive(
        self,
        host: BrokerId,
        client: ClientId,
        number: int | None,
        entry: Entry,
        now_us: int,
        *,
        is_near: bool = True,
    ) -> tuple[Key | None, list[Entry]]:
        """A publication has come, None: without a number; its key if it is held, what may go on.

        Not near: this is no gate of its host's region, where nobody need say that numbers begin.
        """
        if number is None:
            line = self._lines.get((host, client))
            if line is not None and line.unnumbered is None and line.is_unknown:
                return self._hold((host, client), line, None, entry, now_us)
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
            return None, [entry, *self._go_on((host, client), line, now_us)]
        return self._hold((host, client), line, number, entry, now_us)

    def _hold(
        self, name: Name, line: _Line, number: int | None, entry: Entry, now_us: int
    ) -> tuple[Key, list[Entry]]:
        due_us = self._due_us(name[0], line, now_us)
        if not line.waits:
            line.due_us = due_us
        self._keys += 1
        key = ("line", str(self._keys))
        those = line.beside if number is None else line.held.setdefault(number, [])
        those.append(entry._replace(key=key, due_us=due_us))
        self._held += 1
        return key, self._give_up(name, line, line.waiting, now_us) if self._held > MOST else []

    def _line(self, host: BrokerId, client: ClientId) -> _Line:
        line = self._lines.get((host, client))
        if line is None:
            line = self._lines[host, client] = _Line()
            self._counts[host] += 1
        return line

    def _forget(self, name: Name) -> _Line:
        host, _ = name
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
        return self._lines.pop(name)

    def _go_on(self, name: Name, line: _Line, now_us: int) -> list[Entry]:
        """Those whose turn it is."""
        found: list[Entry] = []
        while line.expected is not None:
            if line.expected in line.jumps:
                line.expected = line.jumps.pop(line.expected)
            elif line.expected in line.held:
                found += self._take(line, [line.expected])
                line.expected += 1
            else:
                break
        if line.expected is not None and line.expected == line.unnumbered:
            if line.held:
                # Of a numbering that has not begun yet.
                line.expected = line.unnumbered = None
            else:
                found += self._take(line, (), inf)
                self._forget(name)
        elif found:
            line.due_us = self._due_us(name[0], line, now_us)
        return found

    def _take(self, line: _Line, numbers: Iterable[int], until: float = -1) -> list[Entry]:
        """These, and what has no number and was sent up to `until`, or before any of them."""
        found = [entry for number in sorted(numbers) for entry in line.held.pop(number)]
        if line.beside:
            last = max((until, *map(_host_number, found)))
            found += [each for each in line.beside if _host_number(each) <= last]
            line.beside = [each for each in line.beside if _host_number(each) > last]
            found.sort(key=_host_number)
        self._held -= len(found)
        return found

    # --- what does not come -------------------------------------------------------------------

    def _due_us(self, host: BrokerId, line: _Line, now_us: int) -> int:
        is_doubtful = (line.is_late and not line.is_promised) or (
            now_us < self._doubtful_until_us and not self._is_linked(host)
        )
        return now_us + (self._doubt_us if is_doubtful else self._order_us)

    def doubt(self, now_us: int) -> None:
        """A link of the region is lost: what is missing may never come, if its host is not there.

        A host that is has it back when the link that is lost is given up.
        """
        due_us = now_us + self._doubt_us
        self._doubtful_until_us = due_us
        for (host, _), line in self._lines.items():
            if not self._is_linked(host):
                line.hasten(due_us)

    def lost(self, host: BrokerId) -> list[Entry]:
        """The link to a host is lost: its lines are forgotten; what was held."""
        found: list[Entry] = []
        for name in [each for each in self._lines if each[0] == host]:
            line = self._forget(name)
            found += self._take(line, list(line.held), inf)
        return found

    def give_up(self, now_us: int) -> list[Entry]:
        """Do not wait any longer for what has been missing for so long; what may go on."""
        found: list[Entry] = []
        for name, line in list(self._lines.items()):
            if line.waits and line.due_us <= now_us:
                due = [each for each in line.waiting if each.due_us <= now_us]
                found += self._give_up(name, line, due, now_us)
        return found

    def _give_up(self, name: Name, line: _Line, due: list[Entry], now_us: int) -> list[Entry]:
        """What is before these is missing for good: all that is held up to the last of them goes.

        Where one is missing others may be, and each wait would add up.
        """
        last = max(map(_host_number, due), default=-1)
        numbers = [number for number, those in line.held.items() if _host_number(those[-1]) <= last]
        found = self._take(line, numbers, last)
        if numbers:
            behind = max(numbers)
            line.jumps = {number: to for number, to in line.jumps.items() if number > behind}
            line.expected, line.is_late = behind + 1, False
            found += self._go_on(name, line, now_us)
        elif due and not line.held:
            line.has_waited = True
        if line.waits:
            line.due_us = min(each.due_us for each in line.waiting)
        return found
