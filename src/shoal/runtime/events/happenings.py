"""Notices about clients, operators' orders, and changes of the membership, as happenings.

The rows that machines record say by themselves what they mean (`broker/happenings.py`).
"""

from __future__ import annotations

from shoal.broker.happenings import Happening
from shoal.broker.links.controls import BrokerLocation
from shoal.mqtt.notices import Notice

# The kind of a notice, by what the audit log calls it.
_KINDS = {"taken over": "takeover", "sent on": "redirect", "slowed down": "slow"}
# Texts of clients may be of 65,535 bytes.
_MOST_CHARACTERS = 200


def of_notice(notice: Notice, now_us: int) -> Happening:
    """The happening behind a notice of the audit log."""
    who = notice.who.client or notice.who.user or notice.who.address or "a client"
    text = f"{who}: {notice.what}"
    if notice.is_order:
        operator = notice.who.user or notice.who.address or "an operator"
        text = f"{operator}: {notice.where.removeprefix('/')}, {notice.what}"
    elif notice.where:
        text += f" ({notice.where})"
    if notice.times > 1:
        text += f", {notice.times:,} times"
    kind = "order" if notice.is_order else "refused" if notice.is_refusal else ""
    return Happening(
        at_us=now_us,
        kind=kind or _KINDS.get(notice.what, "client"),
        text=_short(text),
        why=_short(notice.why),
        client=_short(notice.who.client),
    )


def of_location(where: BrokerLocation) -> Happening:
    """The happening of a broker that joined, moved or left; each broker reports the same."""
    if where.has_left:
        return Happening(at_us=where.at_us, kind="leave", text=f"{where.name} left the network")
    return Happening(at_us=where.at_us, kind="join", text=f"{where.name} joined at {where.peers}")


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
