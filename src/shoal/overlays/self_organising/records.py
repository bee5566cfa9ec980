"""Rows of the trace that brokers of this system write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.broker.happenings import Happening
from shoal.model import BrokerId


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a proposed link, recorded by the broker that knows it.

    outcome     advised, worth it and only recommended; agreed, worth it and begun; kept, the links
                there cost no more; refused, not allowed; done or failed, after it was begun
    reason      why not
    left, right the link's ends; the link to remove for it, once decided, is between `old_left` and
                `old_right`
    hops        distance of its ends
    cost_now, cost_then    of the cycle that it closes, per interval, as the system weighs it
    """

    broker: BrokerId
    at_us: int
    outcome: str
    reason: str
    left: BrokerId
    right: BrokerId
    old_left: BrokerId | None = None
    old_right: BrokerId | None = None
    hops: int
    cost_now: float | None = None
    cost_then: float | None = None

    def happening(self) -> Happening:
        link = f"{self.left}-{self.right}"
        instead = f" instead of {self.old_left}-{self.old_right}" if self.old_left else ""
        text = {
            "advised": f"a link {link}{instead} would pay",
            "agreed": f"brokers agreed on a link {link}{instead}",
            "kept": f"the links stay: a link {link} does not pay",
            "refused": f"a link {link} is not allowed",
            "done": f"link {link} is there{instead}",
            "failed": f"link {link} was not made",
        }.get(self.outcome, f"link {link}: {self.outcome}")
        costs = ""
        if self.cost_now is not None and self.cost_then is not None:
            costs = f"cost {self.cost_now:,.4g} → {self.cost_then:,.4g} per interval"
        return Happening(
            at_us=self.at_us,
            kind={"kept": "stay", "advised": "stay", "refused": "stay"}.get(self.outcome, "links"),
            text=text,
            why="; ".join(each for each in (self.reason, costs) if each),
            source=self.left,
            target=self.right,
        )
