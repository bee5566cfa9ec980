"""Matches of a workload's publications: one search for all brokers and all runs on a workload.

Publications are numbered, and grouped by publisher; a subscription belongs to the publisher whose
publications it matches. `Matches.of` gives None if one matches publications of several publishers.

>>> from shoal.language import parse
>>> publications = [("P", {"a": 1}), ("P", {"a": 5}), ("Q", {"b": 2})]
>>> filters = {"s": parse("a > 0"), "t": parse("a > 3"), "u": parse("b = 2")}
>>> found = Matches.of(publications, filters)
>>> found.groups, found.total
((('s', 't'), ('u',)), 4)
>>> found.matching
((0,), (0, 1), (0,))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.matching import MatchIndex
from shoal.model import Attributes, ClientId, Filter, SubscriptionId


class Matches(NamedTuple):
    """Which subscriptions match which publications.

    publications   attributes, by number
    subscriptions  in the order of their numbers
    publishers     in the order of their groups
    groups         subscriptions that match a publication of the publisher
    group          (publications): the number of the publisher
    member         (publications, width): whether each subscription of the group matches
    matching       the same: the numbers in the group of those that do, by publication
    samples        of each group the attributes of the publication that has most of them
    """

    publications: tuple[Attributes, ...]
    subscriptions: tuple[SubscriptionId, ...]
    publishers: tuple[ClientId, ...]
    groups: tuple[tuple[SubscriptionId, ...], ...]
    group: npt.NDArray[np.int64]
    member: npt.NDArray[np.uint8]
    matching: tuple[tuple[int, ...], ...]
    samples: tuple[Attributes, ...]

    @property
    def total(self) -> int:
        """Pairs of a publication and a subscription that match."""
        return int(self.member.sum())

    @classmethod
    def of(
        cls,
        publications: Sequence[tuple[ClientId, Attributes]],
        filters: Mapping[SubscriptionId, Filter],
    ) -> Matches | None:
        """The matches of publications, by their publishers; None where `group` is not unique."""
        subscriptions = tuple(filters)
        index = MatchIndex()
        for number, filter in enumerate(filters.values()):
            index.add(number, filter)
        attributes = tuple(each for _, each in publications)
        offsets, found = index.match_batch(attributes)
        publishers = tuple(dict.fromkeys(publisher for publisher, _ in publications))
        numbers = {name: number for number, name in enumerate(publishers)}
        group = np.array([numbers[publisher] for publisher, _ in publications], np.int64)
        rows = np.repeat(np.arange(len(attributes)), np.diff(offsets))
        found = found.astype(np.int64)
        pairs = np.unique(found * len(publishers) + group[rows])
        wanted, their_group = np.divmod(pairs, max(1, len(publishers)))
        if len(pairs) != len(np.unique(wanted)):
            return None
        place = np.zeros(len(subscriptions), np.int64)
        members: list[list[SubscriptionId]] = [[] for _ in publishers]
        for subscription, number in zip(wanted.tolist(), their_group.tolist(), strict=True):
            place[subscription] = len(members[number])
            members[number].append(subscriptions[subscription])
        width = max((len(each) for each in members), default=0)
        member = np.zeros((len(attributes), max(1, width)), np.uint8)
        member[rows, place[found]] = 1
        ends = np.cumsum(member.sum(axis=1)).tolist()
        numbers_found = np.nonzero(member)[1].tolist()
        samples: dict[int, Attributes] = {}
        for number, each in zip(group.tolist(), attributes, strict=True):
            if len(each) > len(samples.get(number, ())):
                samples[number] = each
        return cls(
            publications=attributes,
            subscriptions=subscriptions,
            publishers=publishers,
            groups=tuple(map(tuple, members)),
            group=group,
            member=member,
            matching=tuple(tuple(numbers_found[start:end]) for start, end in pairwise([0, *ends])),
            samples=tuple(samples.get(number, {}) for number in range(len(publishers))),
        )
