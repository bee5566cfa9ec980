"""The state of a network as its brokers' events tell it: pure.

`take` takes one event of one broker; `snapshot`, `figures` and the other methods are what pages
show. Times are in seconds since 1970, by the console's clock (`now_s`) or by a broker's (events).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from shoal.console.history import History
from shoal.model import BrokerId
from shoal.runtime.traffic.latency import quantile

# Happenings that are kept, and those that a page gets first.
KEPT, SHOWN = 2_000, 60
# A broker that says nothing for so long does not answer, although its connection is up.
SILENT_S = 5.0
# A busier broker is an alert.
BUSY = 0.9
# Kinds of happenings that every broker reports.
_COMMON = ("join", "leave")
_LEVELS = {"bad": 0, "poor": 1}
# The columns of a broker's row in `figures`; `away` and `since_s` are the console's own.
COLUMNS = (
    *("away", "since_s", "ready", "draining", "in_per_s", "published_per_s", "deliveries_per_s"),
    *("processor", "memory_bytes", "disk_free_bytes", "clients", "subscriptions", "queued_bytes"),
    *("dropped", "p99_ms", "certificate_days", "uptime_s"),
)

Row = dict[str, Any]


class BrokerView:
    """One broker: the last states that it has sent, and the connection to it.

    `problem` is the reason why the console is not connected; `since_s` is when that began, or when
    it was connected.
    """

    def __init__(self, name: BrokerId, now_s: float) -> None:
        self.name = name
        self.about: Mapping[str, Any] = {}
        self.figures: Mapping[str, Any] | None = None
        self.alerts: Sequence[Mapping[str, Any]] = ()
        self.top: Sequence[Mapping[str, Any]] = ()
        self.problem = "not connected yet"
        self.since_s = self.heard_s = now_s
        self.last_id = ""
        self.neighbours: list[BrokerId] = []

    def is_away(self, now_s: float) -> bool:
        return bool(self.problem) or self.figures is None or now_s - self.heard_s > SILENT_S

    @property
    def links(self) -> Sequence[Mapping[str, Any]]:
        return self.figures["links"] if self.figures is not None else ()


class NetworkView:
    """All brokers of one network.

    `layout` changes with the brokers and their links: pages then need a new snapshot.
    """

    def __init__(
        self, name: str, system: str, places: Mapping[BrokerId, Any], now_s: float
    ) -> None:
        """`places` are the brokers of the network file, with latitude and longitude or None."""
        self.name, self.system = name, system
        self.brokers = {broker: BrokerView(broker, now_s) for broker in places}
        self.history = History()
        self.layout = 0
        self._places = dict(places)
        self._links: list[tuple[BrokerId, BrokerId]] = []
        self._happened: deque[Row] = deque(maxlen=KEPT)
        self._dropped: deque[Row] = deque(maxlen=KEPT)
        self._busy_since: dict[BrokerId, float] = {}
        self._began_s = now_s

    # --- events -------------------------------------------------------------------------------

    def connected(self, broker: BrokerId, now_s: float) -> None:
        """The stream of a broker has begun."""
        view = self._broker(broker, now_s)
        if view.problem:
            view.problem, view.since_s = "", now_s
        view.heard_s = now_s

    def disconnected(self, broker: BrokerId, problem: str, now_s: float) -> None:
        """The stream of a broker has ended, or could not begin."""
        view = self._broker(broker, now_s)
        if not view.problem:
            view.since_s = now_s
        view.problem = problem

    def take(
        self, broker: BrokerId, kind: str, data: Mapping[str, Any], identifier: str, now_s: float
    ) -> Row | None:
        """Take an event; returns the happening that pages show at once, if it is one."""
        view = self._broker(broker, now_s)
        view.heard_s = now_s
        if identifier:
            view.last_id = identifier
        match kind:
            case "broker":
                view.about = data
                self._set_place(broker, data.get("place"))
            case "figures":
                view.figures = data
                neighbours = [link["neighbour"] for link in data["links"]]
                if neighbours != view.neighbours:
                    view.neighbours = neighbours
                    self._set_links()
            case "alerts":
                view.alerts = data["alerts"]
            case "top":
                view.top = data["clients"]
            case "happened":
                row = {"broker": broker, **data}
                if data["kind"] in _COMMON and any(map(_is_same(row), self._happened)):
                    return None  # another broker has reported it
                self._happened.append(row)
                return row
            case "dropped":
                self._dropped.append({"broker": broker, **data})
        return None

    def forget(self, broker: BrokerId) -> None:
        """A broker has left the network."""
        if self.brokers.pop(broker, None) is not None:
            self._places.pop(broker, None)
            self.layout += 1
            self._set_links()

    @property
    def known(self) -> dict[BrokerId, str]:
        """The admin addresses of all brokers that connected brokers know; empty if none does."""
        return {
            row["broker"]: row["admin"]
            for view in self.brokers.values()
            if not view.problem
            for row in view.about.get("brokers", ())
        }

    def _broker(self, name: BrokerId, now_s: float) -> BrokerView:
        view = self.brokers.get(name)
        if view is None:
            view = self.brokers[name] = BrokerView(name, now_s)
            self._places.setdefault(name, None)
            self.layout += 1
            self._set_links()
        return view

    def _set_place(self, broker: BrokerId, place: Any) -> None:
        if place is not None and self._places.get(broker) != place:
            self._places[broker] = place
            self.layout += 1

    def _set_links(self) -> None:
        found = sorted(
            {
                (min(name, neighbour), max(name, neighbour))
                for name, view in self.brokers.items()
                for neighbour in view.neighbours
                if neighbour in self.brokers
            }
        )
        if found != self._links:
            self._links = found
            self.layout += 1

    # --- pages --------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Add a second to the history."""
        present = [view for view in self.brokers.values() if not view.is_away(now_s)]
        rate = clients = 0.0
        delays: list[int] = []
        for view in present:
            figures = view.figures
            assert figures is not None
            rate += figures["in_per_s"]
            clients += figures["clients"]
            own = figures["delays"]
            delays = [sum(pair) for pair in zip(delays, own, strict=True)] if delays else own
            if figures["processor"] < BUSY:
                self._busy_since.pop(view.name, None)
            else:
                self._busy_since.setdefault(view.name, now_s)
        p99_s = quantile(delays, 0.99) if delays else None
        p99_ms = None if p99_s is None else round(1e3 * p99_s, 2)
        self.history.add(int(now_s), rate=rate, p99_ms=p99_ms, clients=int(clients))

    def snapshot(self) -> Row:
        """The state for a page that opens: brokers and links, in the order of `figures`."""
        numbers = {name: number for number, name in enumerate(self.brokers)}
        return {
            "network": self.name,
            "system": self.system,
            "columns": COLUMNS,
            "brokers": [
                {
                    "name": name,
                    "at": None if (at := self._places.get(name)) is None else [at[1], at[0]],
                    "version": view.about.get("version", ""),
                    "listening": view.about.get("listening", {}),
                }
                for name, view in self.brokers.items()
            ],
            "links": [[numbers[left], numbers[right]] for left, right in self._links],
            "history": self.history.seconds(),
            "events": self.happenings(SHOWN),
        }

    def happenings(self, most: int, broker: str = "", client: str = "") -> list[Row]:
        """The latest happenings, the newest first; of one broker or client alone, if asked."""
        rows: Iterator[Row] = iter(sorted(self._happened, key=_at_us, reverse=True))
        if broker:
            rows = (row for row in rows if broker in (row["broker"], row["source"], row["target"]))
        if client:
            rows = (row for row in rows if row["client"] == client)
        return list(islice(rows, most))

    def drops(self, most: int, client: str = "") -> list[Row]:
        """The latest dropped messages, the newest first."""
        rows = (row for row in reversed(self._dropped) if client in ("", row["client"]))
        return list(islice(rows, most))

    def figures(self, now_s: float) -> Row:
        """What changes every second, by the numbers of brokers and links in the snapshot."""
        views = list(self.brokers.values())
        last = self.history.last
        ends = {pair: self._link(*pair) for pair in self._links}
        return {
            "at": None if last is None else list(last),
            "brokers": [self._row(view, now_s) for view in views],
            "links": [
                [
                    round(sum(each["messages_per_s"] for each in ends[pair]), 1),
                    max((each["delay_ms"] or 0.0 for each in ends[pair]), default=0.0),
                    sum(each["waiting_bytes"] + each["spooled_bytes"] for each in ends[pair]),
                    int(any(each["state"] != "up" for each in ends[pair])),
                ]
                for pair in self._links
            ],
            "wrong": self.wrong(now_s),
        }

    def _row(self, view: BrokerView, now_s: float) -> list[Any]:
        """A broker's figures by `COLUMNS`."""
        figures = view.figures or {}
        return [view.is_away(now_s), view.since_s, *map(figures.get, COLUMNS[2:])]

    def _link(self, left: BrokerId, right: BrokerId) -> list[Mapping[str, Any]]:
        """A link as its two ends see it."""
        return [
            link
            for end, other in ((left, right), (right, left))
            for link in self.brokers[end].links
            if link["neighbour"] == other and not self.brokers[end].problem
        ]

    def wrong(self, now_s: float) -> list[Row]:
        """All problems, the worst and the oldest first."""
        away = {name for name, view in self.brokers.items() if view.is_away(now_s)}
        if now_s - self._began_s < SILENT_S:
            away = {name for name in away if self.brokers[name].figures is not None}
        rows = [self._silence(self.brokers[name], now_s) for name in away]
        for name, view in self.brokers.items():
            if name in away:
                continue
            for alert in view.alerts:
                kind, _, about = alert["key"].partition(" ")
                if kind == "link" and about in away:
                    continue  # the neighbour's silence is a row of its own
                rows.append({**alert, "broker": name, "since_s": alert["since_us"] / 1e6})
            if (since_s := self._busy_since.get(name)) is not None and now_s - since_s > SILENT_S:
                rows.append(self._busy(name, since_s))
        return sorted(rows, key=lambda row: (_LEVELS[row["level"]], row["since_s"], row["key"]))

    def _silence(self, view: BrokerView, now_s: float) -> Row:
        waiting, neighbours = 0, 0
        for name, other in self.brokers.items():
            if other.is_away(now_s) or name == view.name:
                continue
            for link in other.links:
                if link["neighbour"] == view.name:
                    neighbours += 1
                    waiting += link["waiting_bytes"] + link["spooled_bytes"]
        clients = view.figures["clients"] if view.figures is not None else 0
        effect = f"its {clients:,} clients have no broker; " if clients else ""
        if neighbours:
            who = "1 neighbour keeps" if neighbours == 1 else f"{neighbours:,} neighbours keep"
            effect += f"{who} {waiting:,} bytes for it"
        return {
            "key": "silence",
            "level": "bad",
            "text": f"{view.name} does not answer",
            "effect": (effect.removesuffix("; ") or view.problem),
            "advice": view.problem,
            "since_s": view.since_s if view.problem else view.heard_s,
            "broker": view.name,
            "client": "",
        }

    def _busy(self, name: BrokerId, since_s: float) -> Row:
        figures = self.brokers[name].figures
        assert figures is not None
        return {
            "key": "busy",
            "level": "poor",
            "text": f"{name} is {100 * figures['processor']:.0f} % busy",
            "effect": "messages wait for its processor",
            "advice": "move clients away from it (shoal drain, shoal move), or add a broker",
            "since_s": since_s,
            "broker": name,
            "client": "",
        }

    def worst_clients(self, most: int) -> list[Row]:
        """The clients that lose or wait most, of all brokers."""
        rows = [{"broker": name, **row} for name, view in self.brokers.items() for row in view.top]
        rows.sort(key=lambda row: (row["dropped_us"] is None, -row["waiting"], row["client"]))
        return rows[:most]


def _is_same(row: Row) -> Callable[[Row], bool]:
    return lambda other: (other["at_us"], other["text"]) == (row["at_us"], row["text"])


def _at_us(row: Row) -> int:
    return int(row["at_us"])
