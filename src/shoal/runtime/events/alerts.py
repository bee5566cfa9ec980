"""Alerts of one broker: problems that last, each with its begin, its effect and the next step.

`alerts_of` reads them from the broker's figures (`BrokerService.figures`) and is pure; `AlertBook`
remembers since when each is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from rich.filesize import decimal

from shoal.runtime.tls.endings import ended, remark

BAD, POOR = "bad", "poor"
# Less free space on a disk than this is an alert.
LOW_DISK_BYTES = 256 * 2**20


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One problem; `key` names it as long as it lasts.

    level    "bad": clients lose service or messages; "poor": they may, or wait
    text     the problem, a sentence without its full stop
    effect   whom or what it affects; empty if nobody yet
    advice   what an operator can do; empty if it mends itself
    since_us when it began, in µs since 1970
    client   the client that it is about, if it is about one
    """

    key: str
    level: str
    text: str
    effect: str = ""
    advice: str = ""
    since_us: int = 0
    client: str = ""


class AlertBook:
    """The current alerts of one broker."""

    def __init__(self) -> None:
        self.current: dict[str, Alert] = {}

    def update(self, found: Iterable[Alert], now_us: int) -> bool:
        """Take over the alerts that exist now; returns whether one has come, gone or changed level.

        An alert keeps the time of its begin, unless it knows an earlier one by itself.
        """
        before, self.current = self.current, {}
        for alert in found:
            known = before.get(alert.key)
            began_us = min(alert.since_us or now_us, known.since_us if known else now_us)
            self.current[alert.key] = msgspec.structs.replace(alert, since_us=began_us)
        return {key: (each.level, each.text) for key, each in before.items()} != {
            key: (each.level, each.text) for key, each in self.current.items()
        }

    @property
    def rows(self) -> list[Alert]:
        """All, the worst and oldest first."""
        return sorted(
            self.current.values(), key=lambda each: (each.level != BAD, each.since_us, each.key)
        )


def alerts_of(figures: Mapping[str, Any], now_us: int) -> Iterator[Alert]:
    """The alerts in a broker's figures."""
    yield from _disks(figures)
    yield from _readiness(figures)
    yield from _links(figures, now_us)
    yield from _orders(figures, now_us)
    for row in figures["certificates"]:
        if words := remark(row):
            level = BAD if ended(row) else POOR
            yield Alert(
                key=f"certificate {row['use']} {row['file']}",
                level=level,
                text=words,
                advice="replace the file, then send the broker SIGHUP",
            )
    if (scaling := figures["scaling"]) and scaling["problem"]:
        yield Alert(
            key="scaling",
            level=POOR,
            text=f"the number of brokers was not changed: {scaling['problem']}",
            effect="load stays with the brokers that run",
            advice="look at the commands of [scaling], and at the log of the broker they start",
            since_us=scaling["last_us"],
        )
    if count := figures["exceptions"]["count"]:
        times = "an exception was" if count == 1 else f"{count:,} exceptions were"
        yield Alert(
            key="exceptions",
            level=POOR,
            text=f"{times} raised, the last: {figures['exceptions']['last']}",
            advice="read the broker's log, and report it",
        )


def _disks(figures: Mapping[str, Any]) -> Iterator[Alert]:
    journal, log = figures["journal"] or {}, figures["log"] or {}
    if journal.get("is_failing"):
        yield Alert(
            key="journal",
            level=BAD,
            text="the disk does not take the journal",
            effect="messages that the broker could not keep are refused",
            advice="free space on the disk of the broker's folder",
        )
    if log.get("is_failing"):
        yield Alert(
            key="log",
            level=BAD,
            text="the disk does not take the log",
            effect=f"{log['missing']:,} publications are missing in it",
            advice="free space on the disk of the log's folder",
        )
    for reader in log.get("readers", ()):
        if reader["is_lost"]:
            yield Alert(
                key=f"reader {reader['name']}",
                level=POOR,
                text=f"the reader {reader['name']} of the log was too far behind",
                effect="records that it needs are deleted",
            )
    free = [each["free_bytes"] for each in (journal, log) if "free_bytes" in each]
    if free and min(free) < LOW_DISK_BYTES:
        yield Alert(
            key="disk",
            level=POOR,
            text=f"{decimal(min(free))} are free on the broker's disk",
            advice="free space; a full disk refuses messages",
        )


def _readiness(figures: Mapping[str, Any]) -> Iterator[Alert]:
    clients, joining = figures["mqtt"]["connected"], figures["joining"]
    has_left = joining.get("stage") == "left"
    for reason in figures["missing"]:
        if reason.startswith("link to "):
            continue  # the link has an alert of its own
        yield Alert(
            key=f"missing {reason.partition(':')[0]}",
            level=POOR if reason.startswith("clients: ") else BAD,
            text=f"the broker is not ready: {reason}",
            effect=f"new clients are refused; {clients:,} are connected",
            advice=joining["next"] if has_left else "",
        )


def _links(figures: Mapping[str, Any], now_us: int) -> Iterator[Alert]:
    for link in figures["links"]:
        neighbour = link["neighbour"]
        waiting = link["buffered_bytes"] + link["spooled_bytes"]
        waits = f"{decimal(waiting)} wait for {neighbour}" if waiting else ""
        if link["state"] in ("idle", "away"):
            is_new = not link["connections"]
            down = f"the link to {neighbour} is down" + (" since the start" if is_new else "")
            yield Alert(
                key=f"link {neighbour}",
                level=BAD,
                text=down + _because(link["problem"]),
                effect=waits,
                advice=f"look at {neighbour}; if it is dead for good: shoal forget",
                since_us=now_us - link["away_us"],
            )
        elif link["quarantined"]:
            yield Alert(
                key=f"quarantine {neighbour}",
                level=BAD,
                text=f"{neighbour} is in quarantine: {link['quarantined']}",
                effect=waits,
            )
        elif link["congested_us"] > 1_000_000:
            yield Alert(
                key=f"congestion {neighbour}",
                level=POOR,
                text=f"{neighbour} takes messages slower than they come",
                effect=waits,
                since_us=now_us - link["congested_us"],
            )


def _orders(figures: Mapping[str, Any], now_us: int) -> Iterator[Alert]:
    leaving, joining, clients = figures["leaving"], figures["joining"], figures["clients"]
    if clients.get("is_draining") and clients["problem"]:
        yield Alert(
            key="drain",
            level=POOR,
            text=f"the drain waits for clients: {clients['problem']}",
            advice="shoal undrain takes it back",
        )
    if leaving.get("stage") and leaving.get("problem"):
        yield Alert(
            key="leaving",
            level=POOR,
            text=f"the leave waits, {leaving['stage']}: {leaving['problem']}",
            advice=leaving.get("next") or "shoal leave --abort takes it back",
            since_us=now_us - round(1e6 * (leaving.get("since_s") or 0)),
        )
    if joining.get("stage") and joining["stage"] != "left":
        yield Alert(
            key="joining",
            level=POOR,
            text=f"the join is not complete: {joining['stage']}",
            advice=joining.get("next") or "",
            since_us=now_us - round(1e6 * (joining.get("since_s") or 0)),
        )


def _because(problem: str) -> str:
    return f": {problem}" if problem else ""
