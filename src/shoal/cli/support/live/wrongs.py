"""Problems in a live network, a line each, from its brokers' statuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.filesize import decimal
from rich.markup import escape

from shoal.cli.support.live.statuses import Statuses


def wrongs(statuses: Statuses) -> Iterator[str]:
    """All of it, the worst first, in the console's markup."""
    for kind in (_silent, _raised, _disks, _waiting, _links, _moves, _certificates, _versions):
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


def _waiting(statuses: Statuses) -> Iterator[str]:
    """Yield the reasons of brokers that are not ready, and the progress of those that leave."""
    for name, found in statuses.items():
        if found is not None and (missing := found["missing"]):
            yield f"[yellow]{name} waits for: {escape('; '.join(missing))}[/yellow]"
        leaving = found["leaving"] if found is not None else {}
        if leaving.get("stage"):
            words = f"{name} leaves, busy with: {leaving['stage']}"
            if since_s := leaving.get("since_s"):
                words += f" for {since_s:,.0f} s"
            words += f": {leaving['problem']}" if leaving["problem"] else ""
            words += f"; next: {leaving['next']}" if leaving.get("next") else ""
            yield f"[yellow]{escape(words)}[/yellow]" if leaving["problem"] else words
        elif leaving.get("outcome"):
            yield f"{name} stays: its leave was {escape(leaving['outcome'])}"
        joining = (found or {}).get("joining", {})
        if joining.get("stage"):
            words = f"{name} joins, {joining['stage']} for {joining['since_s']:,.0f} s"
            yield f"[yellow]{escape(words)}; next: {escape(joining['next'])}[/yellow]"


def _links(statuses: Statuses) -> Iterator[str]:
    """Yield links that are down or congested, with their queues."""
    for name, found in statuses.items():
        links = [link_words(each) for each in (found or {}).get("links", ()) if not is_well(each)]
        if links:
            yield f"[yellow]{name}: link to {', '.join(links)}[/yellow]"


def _raised(statuses: Statuses) -> Iterator[str]:
    """Yield brokers with uncaught exceptions."""
    for name, found in statuses.items():
        raised = found["exceptions"] if found is not None else {}
        if count := raised.get("count"):
            times = "an exception" if count == 1 else f"{count:,} exceptions, the last"
            last = escape(raised["last"])
            yield f"[red]{name} has raised {times} (its log says more): {last}[/red]"


def _disks(statuses: Statuses) -> Iterator[str]:
    """Yield brokers that cannot write to their disk, and readers whose records are deleted."""
    for name, found in statuses.items():
        if ((found or {}).get("journal") or {}).get("is_failing"):
            yield (
                f"[red]{name} cannot write to its disk: it refuses messages that it could not "
                "keep[/red]"
            )
        log = (found or {}).get("log") or {}
        if log.get("is_failing"):
            yield (
                f"[red]{name} cannot write its log, which lacks {log['missing']:,} publications"
                "[/red]"
            )
        for reader in log.get("readers", ()):
            if reader["is_lost"]:
                words = f"{name}: reader {reader['name']} was too far behind: records it needs are"
                yield f"[yellow]{escape(words)} deleted[/yellow]"


def _moves(statuses: Statuses) -> Iterator[str]:
    """Yield moves that are under way, and redirects with their outcomes."""
    for name, found in statuses.items():
        clients = (found or {}).get("clients", {})
        if clients.get("is_draining") and clients["problem"]:
            yield f"[yellow]{name} still has clients: {clients['problem']}[/yellow]"
        counts = dict(clients.get("moves", {}))
        if clients.get("moving"):
            counts["on their way"] = clients["moving"]
        if counts:
            words = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
            yield f"clients of {name} that were to move: {words}"


def _certificates(statuses: Statuses) -> Iterator[str]:
    """Those that end soon, or have."""
    from shoal.runtime.tls.endings import remark

    for name, found in statuses.items():
        for row in (found or {}).get("certificates", ()):
            if words := remark(row):
                yield f"[yellow]{name}: {escape(words)}[/yellow]"


def _versions(statuses: Statuses) -> Iterator[str]:
    """Yield brokers by version, if versions differ."""
    found: dict[str, list[str]] = {}
    for name, each in statuses.items():
        if each is not None:
            found.setdefault(each["version"], []).append(name)
    if len(found) > 1:
        words = "; ".join(f"{version}: {', '.join(names)}" for version, names in found.items())
        yield f"[yellow]versions: {words}[/yellow]"
