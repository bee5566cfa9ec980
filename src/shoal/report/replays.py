"""Replays through live brokers: the simulator's predictions, and measurements.

`shoal replay --out` and the demo write one JSON file per replay.  The first of several is the one
that the others are compared with.

>>> figures = ReplayFigures(messages=600, seconds=5.0, hops_mean=2.5, moves=0)
>>> figures.rate_per_s(brokers=4)
30.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.model import BrokerId, ClientId
from shoal.report.drawing import figures as show
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.inputs import ReportError

# Publishing that takes so much longer than it should was held back.
HELD_BACK = 1.1
FAULTS = ("lost", "duplicated", "phantom", "out_of_order")
_UNKNOWN = "?"


class ReplayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a replay.

    messages        publications that brokers took in, each counted at every broker
    seconds         from the first publication to the last
    hops_mean       links between brokers that a delivery travelled; None if unknown
    moves           of publishers, finished
    delay_p50_us    from publishing to the subscriber having it; None where it is no forecast
    """

    messages: int
    seconds: float
    hops_mean: float | None
    moves: int
    delay_p50_us: float | None = None

    def rate_per_s(self, brokers: int) -> float | None:
        """Of an average broker."""
        return self.messages / brokers / self.seconds if self.seconds else None


class ReplayPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher's first broker, and where it was in the end; None if unknown."""

    publisher: ClientId
    first: BrokerId
    predicted: BrokerId
    measured: BrokerId | None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a replay; predicted and measured are missing if there is nothing to compare.

    judge      source of the expected deliveries
    controls   brokers' other incoming messages, about clients that moved; None if unknown, and then
               they are among the measured messages
    unfinished the reason why the replay is not whole, as text; the figures of the rest hold, but
               nothing is predicted for it
    """

    name: str
    system: str
    judge: str
    brokers: int
    publishers: int
    subscriptions: int
    publications: int
    redirections: int
    expected: int
    delivered: int
    lost: int
    duplicated: int
    phantom: int
    out_of_order: int
    predicted: ReplayFigures | None
    measured: ReplayFigures | None
    controls: int | None
    places: tuple[ReplayPlace, ...]
    unfinished: tuple[str, ...] = ()


class ReplayLine(NamedTuple):
    """A row of the table: how to get its figure, and how to write it."""

    label: str
    unit: str
    value: Callable[[Replay, ReplayFigures], float | None]
    show: Callable[[float | None], str]
    meaning: str


LINES: Sequence[ReplayLine] = (
    ReplayLine("Messages per publication", "", lambda replay, of: of.messages / replay.publications,
         show.quantity, "brokers that take a publication in, on average"),
    ReplayLine("… per broker", "messages/s", lambda replay, of: of.rate_per_s(replay.brokers),
         show.quantity, "publications that a broker takes in per second, on average"),
    ReplayLine("Hops per delivery", "", lambda replay, of: of.hops_mean, show.quantity,
         "links between brokers that a delivery travels, on average"),
    ReplayLine("Publisher moves", "", lambda replay, of: of.moves, show.count,
         "how often a publisher was moved to another broker"),
    ReplayLine("Median delay", "ms", lambda replay, of: of.delay_p50_us, show.milliseconds,
         "from publishing to the subscriber having it; the simulator forecasts no machine"),
)  # fmt: skip

# Figures that relocation changes; a rate is equivalent to the messages, at a replay's pace.
_COMPARED = (LINES[0], LINES[2])


class ReplayCell(NamedTuple):
    """A line's figures of one replay; `off` is the measured one against the predicted one."""

    predicted: str
    measured: str
    off: str


def read_replay(path: Path) -> Replay:
    """The replay in a file; ReportError names the fault."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Replay)
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ReportError(f"{path}: is no replay: {error}") from None


def cell(line: ReplayLine, replay: Replay) -> ReplayCell:
    """Return a line's cell for a replay."""
    values = [
        None if each is None or not replay.publications else line.value(replay, each)
        for each in (replay.predicted, replay.measured)
    ]
    texts = [show.MISSING if value is None else line.show(value) for value in values]
    return ReplayCell(texts[0], texts[1], show.change(values[1], values[0]))


def effects(replays: Sequence[Replay]) -> list[str]:
    """Return each replay's changes against the first, measured and predicted, in words."""
    found = []
    for replay in replays[1:]:
        for line in _COMPARED:
            changes = [
                show.change(_value(line, replay, which), _value(line, replays[0], which))
                for which in ("measured", "predicted")
            ]
            if all(changes):
                found.append(
                    f"{replay.name} against {replays[0].name}, {line.label.lower()}: "
                    f"{changes[0]} (predicted {changes[1]})"
                )
    return found


def held_back(replays: Sequence[Replay]) -> list[str]:
    """Return notes on publishing that took longer than in the workload."""
    found = []
    for replay in replays:
        wanted, took = replay.predicted, replay.measured
        if (
            wanted is not None
            and took is not None
            and took.seconds > HELD_BACK * wanted.seconds > 0
        ):
            found.append(
                f"{replay.name}, live: publishing took {show.quantity(took.seconds)} s instead of "
                f"{show.quantity(wanted.seconds)}: brokers, or this machine, could not keep up; "
                "rates, delays and moves are of that pace"
            )
    return found


def _value(line: ReplayLine, replay: Replay, which: str) -> float | None:
    found: ReplayFigures | None = getattr(replay, which)
    return None if found is None or not replay.publications else line.value(replay, found)


def moved(replay: Replay) -> dict[str, dict[str, list[str]]]:
    """Return the moves: publishers by their last broker, by their first.

    A name has the simulator's broker behind it, if that differs; publishers that stayed, as
    predicted, are left out.
    """
    transfers: dict[str, dict[str, list[str]]] = {}
    for place in sorted(replay.places, key=lambda each: (each.first, each.measured or "")):
        if place.first == place.measured == place.predicted:
            continue
        other = "" if place.measured == place.predicted else f" (predicted {place.predicted})"
        names = transfers.setdefault(place.first, {}).setdefault(place.measured or _UNKNOWN, [])
        names.append(place.publisher + other)
    return transfers


def moved_sentence(replay: Replay) -> str:
    """Return how many publishers moved, and how many were where the simulator had put them."""
    went = sum(place.measured not in (place.first, None) for place in replay.places)
    as_predicted = sum(place.measured == place.predicted for place in replay.places)
    return (
        f"{replay.name}: {went} of {replay.publishers} publishers ended at another broker, "
        f"{as_predicted} where the simulator had put them; "
        f"clients followed {show.count(replay.redirections)} times"
    )


def proof(replays: Sequence[Replay]) -> str:
    """Deliveries expected and made, in one line."""
    totals = {
        name: sum(getattr(replay, name) for replay in replays)
        for name in ("expected", "delivered", *FAULTS)
    }
    judges = " and ".join(dict.fromkeys(replay.judge for replay in replays))
    across = f" in {len(replays)} live replays" if len(replays) > 1 else ", live"
    counts = ", ".join(
        f"{name.replace('_', ' ')}: {show.count(value)}"
        for name, value in totals.items()
        if name != "expected"
    )
    return f"deliveries expected by {judges}{across}: {show.count(totals['expected'])}, {counts}"


def problems(replay: Replay) -> list[str]:
    """Return errors and gaps of a replay."""
    return _gaps(replay) + [
        f"{replay.name}, live: {count:,} {name.replace('_', ' ')}"
        for name in FAULTS
        if (count := getattr(replay, name))
    ]


def _gaps(replay: Replay) -> list[str]:
    return [f"{replay.name}, live, is not whole: {reason}" for reason in replay.unfinished]


def replays_section(replays: Sequence[Replay]) -> Markup:
    """The part of the page about live brokers."""
    first = replays[0]
    is_right = not any(getattr(replay, name) for replay in replays for name in FAULTS)
    text = proof(replays)
    return join(
        tag(
            "p",
            f"{show.count(first.publications)} publications of {first.publishers} MQTT clients "
            f"for {show.count(first.subscriptions)} subscribers through {first.brokers} live "
            "brokers. Measured is what the brokers counted and traced; predicted is what the "
            "simulator says of the same brokers, links, clients and publications. It forecasts no "
            "machine, so it has no delay to compare. It is a simulation of its own, of brokers as "
            "near each other as these are: its moves are not those of the runs above. Moves count "
            "each time a publisher was moved, and a publisher may be moved several times, so fewer "
            "publishers end at another broker.",
        ),
        _table(replays),
        [tag("p", f"{text}.", class_="note") for text in (*effects(replays), *held_back(replays))],
        tag("p", f"{text[0].upper()}{text[1:]}.", class_=None if is_right else "fault"),
        [tag("p", f"{why}.", class_="fault") for replay in replays for why in _gaps(replay)],
        [_movers(replay) for replay in replays if moved(replay)],
        [tag("p", _controls_note(replay), class_="note") for replay in replays if replay.controls],
    )


def _controls_note(replay: Replay) -> str:
    return (
        f"Not counted in {replay.name}: {show.count(replay.controls)} messages in which brokers "
        "told each other about clients that moved."
    )


def _table(replays: Sequence[Replay]) -> Markup:
    top = [tag("th", replay.name, _of_system(replay), colspan=3) for replay in replays]
    names = join([tag("th", name, scope="col") for name in ("predicted", "measured", "off by")])
    rows = [
        tag(
            "tr",
            tag("th", line.label, tag("small", line.unit) if line.unit else None,
                scope="row", title=line.meaning),
            [
                join(tag("td", found.predicted), tag("td", tag("b", found.measured)),
                     tag("td", found.off or show.MISSING, class_="off"))
                for found in (cell(line, replay) for replay in replays)
            ],
        )
        for line in LINES
    ]  # fmt: skip
    head = tag(
        "thead", tag("tr", tag("th", ""), top), tag("tr", tag("th", ""), [names for _ in replays])
    )
    return tag("div", tag("table", head, tag("tbody", rows), class_="replays"), class_="wide")


def _of_system(replay: Replay) -> Markup | None:
    """The system, where the name does not say it."""
    return None if replay.system in replay.name.lower() else tag("small", replay.system)


def _movers(replay: Replay) -> Markup:
    rows = [
        tag("tr", tag("td", f"{first} → {last}"), tag("td", ", ".join(names)))
        for first, lasts in moved(replay).items()
        for last, names in lasts.items()
    ]
    head = tag("tr", tag("th", "from, to", scope="col"), tag("th", "publishers", scope="col"))
    return join(
        tag("h3", f"Moves of publishers, live: {replay.name}"),
        tag("p", moved_sentence(replay) + ".", class_="note"),
        tag("div", tag("table", tag("thead", head), tag("tbody", rows), class_="movers"),
            class_="scroll"),
    )  # fmt: skip
