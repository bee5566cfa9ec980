"""A recommended tree, assembled from the exchanges that brokers advise one by one.

Each broker advises an exchange of one link in the overlay as it is. The result must be a tree that
the operator's rules allow. So the exchange that saves most comes first. An exchange is skipped if
its link does not close a cycle over the link it would replace, or if it gives a broker more links
than allowed: brokers advise anew when the overlay has changed.

>>> def advised(left, right, old, now, then):
...     return ProposalRecord(broker=right, at_us=1, outcome="advised", reason="", left=left,
...         right=right, old_left=old[0], old_right=old[1], hops=2, cost_now=now, cost_then=then)
>>> links = [("A", "B"), ("B", "C"), ("C", "D")]
>>> advice = recommend(links, [advised("A", "C", ("A", "B"), 90, 80),
...                            advised("A", "D", ("A", "B"), 90, 40)], within_us=0)
>>> advice.links
[('A', 'D'), ('B', 'C'), ('C', 'D')]
>>> print(as_toml(advice))
# A - D instead of A - B: 56 % less over 2 links (40 instead of 90 per interval)
# the saving of an exchange is estimated for the cycle that its link closes, without other exchanges
links = [
  ["A", "D"],
  ["B", "C"],
  ["C", "D"],
]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shoal.model import BrokerId
from shoal.overlays.self_organising.parameters import Heuristic, SelfOrganisingParameters
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.overlays.self_organising.rules import ExchangeRules

ESTIMATED = (
    "the saving of an exchange is estimated for the cycle that its link closes, without other "
    "exchanges"
)
NOTHING = "no other links are recommended"

Link = tuple[BrokerId, BrokerId]


class ExchangeAdvice(NamedTuple):
    """Links to have instead of those there are, and the exchanges that lead to them."""

    links: list[Link]
    exchanges: list[ProposalRecord]


def recommend(
    links: Iterable[Link],
    proposals: Iterable[ProposalRecord],
    within_us: int,
    parameters: SelfOrganisingParameters | None = None,
) -> ExchangeAdvice:
    """The recommended overlay.

    Of several records about one new link the last is valid; those do not count any more that are
    older than the newest by more than `within_us`.  `parameters` have the operator's rules.
    """
    rules = ExchangeRules(parameters or SelfOrganisingParameters())
    rows = sorted(proposals, key=lambda row: row.at_us)
    last = {_in_order((row.left, row.right)): row for row in rows}
    advised = [
        row
        for row in last.values()
        if row.outcome == "advised" and row.at_us >= rows[-1].at_us - within_us
    ]
    tree = {_in_order(link): None for link in links}
    taken = []
    for row in sorted(advised, key=lambda row: (-_saving(row), row.left, row.right)):
        new, old = _in_order((row.left, row.right)), _old_link(row)
        if old not in tree or new in tree:
            continue
        if rules.against_link(*new) or rules.against_removal(*old):
            continue
        left = [link for link in tree if link != old]
        if any(rules.is_full(_count(end, left)) for end in new if end not in old):
            continue
        if row.right not in _reached(row.left, left):
            tree = dict.fromkeys([*left, new])
            taken.append(row)
    return ExchangeAdvice(sorted(tree), taken)


def as_toml(
    advice: ExchangeAdvice,
    heuristic: Heuristic = Heuristic.COST_AND_INTEREST,
    remarks: Sequence[str] = (),
) -> str:
    """The links as a network file has them, each exchange and the remarks as comments above."""
    comments = [_in_words(row, heuristic) for row in advice.exchanges]
    comments += [ESTIMATED if advice.exchanges else NOTHING, *remarks]
    pairs = [f"  [{_text(left)}, {_text(right)}]," for left, right in advice.links]
    return "\n".join([*(f"# {each}" for each in comments), "links = [", *pairs, "]"])


def _in_words(row: ProposalRecord, heuristic: Heuristic) -> str:
    new, old = (" - ".join(ends) for ends in (_in_order((row.left, row.right)), _old_link(row)))
    text = f"{new} instead of {old}"
    if not row.cost_now or row.cost_then is None:
        return text
    costs = f"{_number(row.cost_then)} instead of {_number(row.cost_now)}"
    percent = 100 * _saving(row) / row.cost_now
    less = f"{text}: {percent:.0f} % less over {row.hops} links"
    match heuristic:
        case Heuristic.COST_AND_INTEREST:
            return f"{less} ({costs} per interval)"
        case Heuristic.COST:
            return f"{less} ({costs} for all of them)"
        case Heuristic.INTEREST:
            shared = f"{_number(row.cost_now)} in an interval, not {_number(row.cost_then)}"
            return f"{text}: its ends share {shared}"


def _number(cost: float) -> str:
    return f"{cost:,.0f}" if cost >= 1_000 else f"{cost:.6g}"


def _saving(row: ProposalRecord) -> float:
    return (row.cost_now or 0.0) - (row.cost_then or 0.0)


def _old_link(row: ProposalRecord) -> Link:
    return _in_order((row.old_left or "", row.old_right or ""))


def _in_order(link: Link) -> Link:
    return min(link, link[::-1])


def _count(broker: BrokerId, links: Iterable[Link]) -> int:
    """Number of links that the broker has."""
    return sum(broker in link for link in links)


def _reached(start: BrokerId, links: Iterable[Link]) -> set[BrokerId]:
    beside: dict[BrokerId, list[BrokerId]] = {}
    for left, right in links:
        beside.setdefault(left, []).append(right)
        beside.setdefault(right, []).append(left)
    reached, waiting = {start}, [start]
    for broker in waiting:  # grows while it is read
        new = [each for each in beside.get(broker, ()) if each not in reached]
        reached.update(new)
        waiting += new
    return reached


def _text(broker: BrokerId) -> str:
    """A TOML string: one of JSON, except that TOML has no halves of characters."""
    return json.dumps(broker, ensure_ascii=False).replace("\x7f", "\\u007f")
