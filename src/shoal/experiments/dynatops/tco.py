"""A topic-connected overlay: links such that the subscribers of each topic reach each other.

Greedy merge: of all links it takes the one that joins most topics' parts, until each topic is one
part.  When brokers' subscriptions change, links between the others stay, and the merge goes on with
those of the changed ones only, which is what dividing and conquering the change comes to.

Source: DYNATOPS, section 6.2, after Chockler et al. and Chen et al.
"""

from __future__ import annotations

import numpy as np

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.overlays.dynatops.planning.problem import Amounts, Flags, Numbers


class TopicConnected:
    """The links between some brokers, as their subscriptions change."""

    def __init__(self, wanted: Flags) -> None:
        self._wanted = wanted.copy()
        self.linked = np.zeros((len(wanted), len(wanted)), np.bool_)
        _merge(self._wanted, self.linked, np.ones(len(wanted), np.bool_))

    def change(self, wanted: Flags) -> int:
        """New subscriptions; how many links are opened or closed for them."""
        changed = (wanted != self._wanted).any(axis=1)
        before = self.linked.copy()
        self._wanted = wanted.copy()
        self.linked[changed] = False
        self.linked[:, changed] = False
        _merge(self._wanted, self.linked, changed)
        return int((before != self.linked).sum()) // 2

    def distances(self) -> Amounts:
        """(topics, brokers): hops to each subscriber from the first of its topic, by its links."""
        return _distances(self._wanted, self.linked)


@kernel
def _find(parts: Numbers, broker: int) -> int:
    while parts[broker] != broker:
        parts[broker] = parts[parts[broker]]
        broker = parts[broker]
    return broker


@kernel
def _merge(wanted: Flags, linked: Flags, may_link: Flags) -> None:
    """Add links until each topic's subscribers are in one part; some end of each may link.

    Gains only fall as links are added, so the best of the last count is looked at anew only.
    """
    brokers, topics = wanted.shape
    parts = np.zeros((topics, brokers), np.int32)
    for topic in range(topics):
        for broker in range(brokers):
            parts[topic, broker] = broker
    for one in range(brokers):
        for other in range(one):
            if linked[one, other]:
                _join(wanted, parts, one, other)
    gains = np.zeros((brokers, brokers), np.int32)
    highest = 0
    for one in range(brokers):
        for other in range(one):
            if not linked[one, other]:
                gains[one, other] = _gain(wanted, parts, one, other)
                highest = max(highest, gains[one, other])
    # Where parts are left that only others could join, they may after all.
    for is_bound in (True, False):
        goal = highest
        while goal > 0:
            for one in range(brokers):
                for other in range(one):
                    if gains[one, other] < goal or (
                        is_bound and not (may_link[one] or may_link[other])
                    ):
                        continue
                    gains[one, other] = _gain(wanted, parts, one, other)
                    if gains[one, other] >= goal:
                        _join(wanted, parts, one, other)
                        linked[one, other] = linked[other, one] = True
                        gains[one, other] = 0
            goal -= 1


@kernel
def _gain(wanted: Flags, parts: Numbers, one: int, other: int) -> int:
    found = 0
    for topic in range(wanted.shape[1]):
        if wanted[one, topic] and wanted[other, topic]:
            found += _find(parts[topic], one) != _find(parts[topic], other)
    return found


@kernel
def _join(wanted: Flags, parts: Numbers, one: int, other: int) -> None:
    for topic in range(wanted.shape[1]):
        if wanted[one, topic] and wanted[other, topic]:
            parts[topic, _find(parts[topic], one)] = _find(parts[topic], other)


@kernel
def _distances(wanted: Flags, linked: Flags) -> Amounts:
    brokers, topics = wanted.shape
    found = np.zeros((topics, brokers))
    queue = np.zeros(brokers, np.int32)
    for topic in range(topics):
        seen = np.zeros(brokers, np.bool_)
        head, tail = 0, 0
        for broker in range(brokers):
            if wanted[broker, topic]:
                queue[0] = broker
                seen[broker] = True
                tail = 1
                break
        while head < tail:
            here = queue[head]
            head += 1
            for there in range(brokers):
                if linked[here, there] and wanted[there, topic] and not seen[there]:
                    seen[there] = True
                    found[topic, there] = found[topic, here] + 1
                    queue[tail] = there
                    tail += 1
    return found
