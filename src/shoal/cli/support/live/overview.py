"""A live network as a table with a line for each broker, and each broker's details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from shoal.cli.support.live.statuses import Statuses, clock
from shoal.cli.support.live.wrongs import duration, is_well, link_words
from shoal.overlays.trace_rows import EventRow

DECISIONS_SHOWN = 10
# So many characters of neighbours' names fit into a table at 80 columns; more are counted.
NAMED_LINKS = 18
# Tables, and users, that are named as taking the most memory.
MOST_OF_MEMORY = 5


def overview(statuses: Statuses) -> Table:
    """One line for each broker, those that are not ready first; no wider than 80 columns."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("broker", "state", "up for", "links"):
        table.add_column(column, no_wrap=column != "links")
    for column in ("clients", "publications", "deliveries"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, found in sorted(statuses.items(), key=lambda row: _urgency(row[1])):
        if found is None:
            table.add_row(name, "[red]no answer[/red]")
            continue
        counts, mqtt = found["counts"], found["mqtt"]
        alone = not found["links"]
        table.add_row(
            name,
            _state(found),
            duration(found.get("uptime_s")),
            _links(found["links"]),
            f"{mqtt['connected']:,}",
            f"{mqtt['publications'] if alone else counts.get('publications_in', 0):,}",
            f"{mqtt['deliveries']:,}",
        )
    return table


def summary(statuses: Statuses) -> str:
    """Return how many brokers are ready."""
    ready = sum(found is not None and bool(found["ready"]) for found in statuses.values())
    if ready == len(statuses):
        return f"all {ready} brokers are ready" if ready > 1 else f"{next(iter(statuses))} is ready"
    return f"[red]{ready} of {len(statuses)} brokers are ready[/red]"


def footnotes(statuses: Statuses) -> Iterator[str]:
    """Return notes that are no problems, a line each."""
    free = {name: row["free_bytes"] for name, row in _journals(statuses).items()}
    if free:
        least = min(free, key=lambda name: free[name])
        yield f"free on their disks: {decimal(free[least])} at least ({least})"
    yield from _latency(statuses)
    yield from _scaling(statuses)
    refused = {
        name: sum(row["count"] for row in (found or {}).get("mqtt", {}).get("refusals", ()))
        for name, found in statuses.items()
    }
    if any(refused.values()):
        words = ", ".join(f"{name} {count:,}" for name, count in refused.items() if count)
        yield f"refused since they started: {words} (see --details)"


def _scaling(statuses: Statuses) -> Iterator[str]:
    """Return the decisions about the number of brokers, of each broker that makes them."""
    for name, found in statuses.items():
        if scaling := (found or {}).get("scaling"):
            yield f"{name} scales: {escape(scaling_words(scaling))}"
            if scaling["last"]:
                yield f"  last, {clock(scaling['last_us'])}: {escape(scaling['last'])}"


def scaling_words(found: Mapping[str, Any]) -> str:
    """The load, the bounds, and the step that is under way.

    >>> row = {"state": "watching", "broker": "", "serving": 3, "spare": 1, "least": 2, "most": 0}
    >>> row |= {"utilisation": 0.62, "adds_above": 0.85, "removes_below": 0.5, "is_dry_run": False}
    >>> scaling_words(row | {"why": ""})
    '3 serve (2 or more), 62 % busy, 1 spare; adds above 85 %, removes below 50 %'
    """
    bounds = (
        f"{found['least']} to {found['most']}" if found["most"] else f"{found['least']} or more"
    )
    busy = "load unknown" if found["utilisation"] is None else f"{found['utilisation']:.0%} busy"
    words = f"{found['serving']} serve ({bounds}), {busy.replace('%', ' %')}"
    words += f", {found['spare']} spare; adds above {100 * found['adds_above']:.0f} %"
    words += f", removes below {100 * found['removes_below']:.0f} %"
    if found["is_dry_run"]:
        words += "; dry run"
    if found["broker"]:
        words += f"; {found['broker']} is {found['state']}: {found['why']}"
    elif found["state"] == "resting":
        words += "; rests after a change"
    return words


def _latency(statuses: Statuses) -> Iterator[str]:
    """Return how long deliveries take at the broker where they take longest."""
    found = {
        name: latency
        for name, status in statuses.items()
        if (latency := ((status or {}).get("latency") or {}).get("here"))
        and latency["p99_s"] is not None
    }
    if found:
        slowest = max(found, key=lambda name: found[name]["p99_s"])
        words = latency_words(found[slowest])
        yield f"delivery to clients of the same broker: {words} at most ({slowest})"


def latency_words(found: Mapping[str, Any]) -> str:
    """
    >>> latency_words({"p50_s": 0.0004, "p99_s": 0.38})
    'p50 0.4 ms, p99 380 ms'
    """
    return ", ".join(f"{key[:3]} {_elapsed(found[key])}" for key in ("p50_s", "p99_s"))


def _elapsed(seconds: float) -> str:
    """
    >>> _elapsed(0.00012), _elapsed(0.994), _elapsed(0.9996), _elapsed(8.13), _elapsed(1_000.0)
    ('0.12 ms', '994 ms', '1.0 s', '8.1 s', '1000.0 s')
    """
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def details(console: Console, statuses: Statuses, records: Mapping[str, type]) -> None:
    """Print each broker's links, disk, tables, and refusals."""
    for name, found in statuses.items():
        if found is None:
            continue
        rows = Table.grid(padding=(0, 2))
        for heading, text in _about(found, records):
            rows.add_row(f"  {heading}", text)
        console.print(f"[bold]{name}[/bold]", highlight=False)
        console.print(rows)


def told(statuses: Statuses, kinds: Mapping[str, type[EventRow]]) -> Table:
    """Return a table of brokers' recent events; two brokers may report the same event."""
    rows = [kind(**row) for name, kind in kinds.items() for row in statuses.shown(name)]
    rows.sort(key=lambda row: row.at_us)
    table = Table("at", "what", title="what happened", title_justify="left")
    for row in rows[-DECISIONS_SHOWN:]:
        table.add_row(clock(row.at_us), row.in_words())
    return table


def moved(statuses: Statuses) -> Table:
    """The publishers that are, or are about to be, elsewhere than their clients."""
    table = Table(title="publishers that moved", title_justify="left")
    for column in ("publisher", "its client is at", "publishes at", "moves"):
        table.add_column(column, justify="right" if column == "moves" else "left")
    for found in statuses.values():
        for row in (found or {}).get("publishers", ()):
            if row["moved"] or row["is_moving"]:
                place = f"{row['broker']} (moving)" if row["is_moving"] else row["broker"]
                table.add_row(row["publisher"], row["front_end"], place, f"{row['moved']:,}")
    return table


def _about(found: Mapping[str, Any], records: Mapping[str, type]) -> Iterator[tuple[str, str]]:
    """Yield a broker's own records, by a heading."""
    yield "version", f"{found['version']}, process {found['pid']}"
    if listening := found.get("listening"):
        yield "listens", ", ".join(f"{key} {where}" for key, where in listening.items())
    if found["links"]:
        yield "links", ", ".join(map(link_words, found["links"]))
    counts = dict(found["tables"])
    counts |= {key: found["counts"].get(row.__name__, 0) for key, row in records.items()}
    if words := [_counted(key, count) for key, count in counts.items() if count]:
        yield "has", ", ".join(words)
    mqtt = found["mqtt"]
    keys = ("sessions", "subscriptions", "retained", "dropped", "refused", "slowed")
    if words := [_counted(key, mqtt[key]) for key in keys if mqtt.get(key)]:
        yield "clients", ", ".join(words)
    if queued := mqtt.get("queued_bytes"):
        yield "waiting", decimal(queued)
    memory = found.get("memory") or {}
    tables, users = (memory.get(key, ())[:MOST_OF_MEMORY] for key in ("tables", "users"))
    if words := [f"{row['name']} {decimal(row['bytes'])}" for row in tables if row["bytes"]]:
        yield "memory", ", ".join(words)
    if words := [f"{row['user']} {decimal(row['queued_bytes'])}" for row in users]:
        yield "queued for", ", ".join(map(escape, words))
    latency = found.get("latency") or {}
    for where, whose in (("here", "of this broker"), ("elsewhere", "of others, by their clocks")):
        if (each := latency.get(where)) and each["p99_s"] is not None:
            yield "delivery", f"{latency_words(each)} ({whose})"
    if journal := found.get("journal"):
        yield "on disk", decimal(journal["bytes"])
    if log := found.get("log"):
        logged = _counted("records", log["next"] - log["first"])
        behind = [f"{each['name']} {each['behind']:,} behind" for each in log["readers"]]
        yield "log", ", ".join([f"{logged}, {decimal(log['bytes'])}", *behind])
    if words := [_replay_words(each) for each in found.get("replays", ())]:
        yield "replays", escape(", ".join(words))
    rows = mqtt.get("refusals", ())
    if words := [f"{row['count']:,} {row['what']} ({row['reason']})" for row in rows]:
        yield "refused", ", ".join(words)


def _replay_words(replay: Mapping[str, Any]) -> str:
    """A subscriber that still gets its past, and the brokers whose logs it waits for."""
    waits_for = ", ".join(replay["waits_for"])
    waits = f", waits for {waits_for}" if waits_for else ""
    return f"{replay['client']} ({replay['topic_filter']}{waits})"


def _urgency(found: Mapping[str, Any] | None) -> int:
    """Sort key: problems come first in the table."""
    return 0 if found is None else 1 + bool(found["ready"]) + (not found["missing"])


def _state(found: Mapping[str, Any]) -> str:
    if found.get("clients", {}).get("is_draining"):
        return "[yellow]drained[/yellow]"
    return "ready" if found["ready"] else "[yellow]not ready[/yellow]"


def _links(links: list[Mapping[str, Any]]) -> str:
    """Neighbours' names, or how many there are; those that are not well are said elsewhere."""
    up = sum(each["state"] == "up" for each in links)
    if up < len(links):
        return f"[yellow]{up} of {len(links)} up[/yellow]"
    names = ", ".join(str(each["neighbour"]) for each in links)
    text = names if len(names) <= NAMED_LINKS else f"{len(links)} up"
    return text if all(map(is_well, links)) else f"[yellow]{text}[/yellow]"


def _journals(statuses: Statuses) -> dict[str, Mapping[str, Any]]:
    journals = {name: (found or {}).get("journal") for name, found in statuses.items()}
    return {name: journal for name, journal in journals.items() if journal}


def _counted(table: str, rows: int) -> str:
    """
    >>> _counted("subscriber_selections", 1), _counted("subscriptions", 1_234)
    ('1 subscriber selection', '1,234 subscriptions')
    """
    words = table.replace("_", " ")
    return f"{rows:,} {words.removesuffix('s') if rows == 1 else words}"
