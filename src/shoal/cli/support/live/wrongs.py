"""Problems in a live network, a line each, from its brokers' statuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.filesize import decimal
from rich.markup import escape

from shoal.cli.support.live.statuses import Statuses


def wrongs(statuses: Statuses, now_us: int) -> Iterator[str]:
    """All of them in the console's markup: brokers that do not answer, then alerts by level, then
    what is under way. `now_us` is in µs since 1970.
    """
    yield from _silent(statuses)
    alerts = [(name, each) for name, found in statuses.items() for each in _alerts(found)]
    for name, alert in sorted(alerts, key=lambda each: each[1]["level"] != "bad"):
        yield _alert_line(name, alert, now_us)
    for kind in (_leaves, _moves, _versions):
        yield from kind(statuses)


def link_words(link: Mapping[str, Any]) -> str:
    """A link in a few words."""
    away_us = link["away_us"]
    words = [] if link["state"] == "up" else [link["state"]]
    if words and away_us:
        words = [f"{link['state']} for {duration(away_us / 1e6)}"]
        if not link["connections"]:  # a broker that has started since knows no more
            words = [f"away for {duration(away_us / 1e6)} or longer"]
    if quarantined := link.get("quarantined"):
        words.append(f"in quarantine: {escape(quarantined)}")
    if congested_us := link.get("congested_us"):
        words.append(f"congested for {congested_us / 1e6:.1f} s")
    if waiting := link.get("buffered_bytes", 0) + link.get("spooled_bytes", 0):
        words.append(f"{decimal(waiting)} wait")
    return f"{link['neighbour']} ({', '.join(words)})" if words else str(link["neighbour"])


def is_well(link: Mapping[str, Any]) -> bool:
    """Return whether a link is up, and neither congested nor in quarantine."""
    is_slow = link.get("congested_us") or link.get("quarantined")
    return link["state"] == "up" and not is_slow


def duration(seconds: float | None) -> str:
    """Return a duration in the largest unit that is full."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds is not None and seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "" if seconds is None else f"{seconds:.0f} s"


def _silent(statuses: Statuses) -> Iterator[str]:
    """Yield brokers that do not answer, with the reason."""
    for name, found in statuses.items():
        if found is None:
            yield f"[red]{name} {escape(statuses.why_not(name))}[/red]"


def _alerts(found: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found["alerts"] if found is not None else []
    return rows


def _alert_line(name: str, alert: Mapping[str, Any], now_us: int) -> str:
    """An alert as a line: the problem, for how long, its effect and the next step."""
    words = f"{name}: {alert['text']}"
    lasts_s = (now_us - alert["since_us"]) / 1e6
    words += f" ({duration(lasts_s)})" if lasts_s >= 1 else ""
    words += f"; {alert['effect']}" if alert["effect"] else ""
    words += f"; next: {alert['advice']}" if alert["advice"] else ""
    colour = "red" if alert["level"] == "bad" else "yellow"
    return f"[{colour}]{escape(words)}[/{colour}]"


def _leaves(statuses: Statuses) -> Iterator[str]:
    """Yield leaves that go on, and those that were given up."""
    for name, found in statuses.items():
        leaving = found["leaving"] if found is not None else {}
        if leaving.get("stage") and not leaving["problem"]:
            since_s = leaving.get("since_s")
            lasts = f" for {duration(since_s)}" if since_s else ""
            yield f"{name} leaves, busy with: {escape(leaving['stage'])}{lasts}"
        elif leaving.get("outcome"):
            yield f"{name} stays: its leave was {escape(leaving['outcome'])}"


def _moves(statuses: Statuses) -> Iterator[str]:
    """Yield moves that are under way, and redirects with their outcomes."""
    for name, found in statuses.items():
        clients = (found or {}).get("clients", {})
        counts = dict(clients.get("moves", {}))
        if clients.get("moving"):
            counts["on their way"] = clients["moving"]
        if counts:
            words = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
            yield f"clients of {name} that were to move: {words}"


def _versions(statuses: Statuses) -> Iterator[str]:
    """Yield brokers by version, if versions differ."""
    found: dict[str, list[str]] = {}
    for name, each in statuses.items():
        if each is not None:
            found.setdefault(each["version"], []).append(name)
    if len(found) > 1:
        words = "; ".join(f"{version}: {', '.join(names)}" for version, names in found.items())
        yield f"[yellow]versions: {words}[/yellow]"
