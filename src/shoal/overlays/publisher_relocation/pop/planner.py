"""POP's broker selection, one broker's part: the publisher's best place is here, or further on.

A broker knows the average number of subscribers of a publisher's publications, here and behind each
neighbour. If the publisher is on one side of a link, all publications for the other side travel
over it; so the publisher belongs on the side with more of them, and the request goes link by link
to the broker where no neighbour has more than all others together.

>>> profile = Profile(weight_percent=25)
>>> profile.add(1, {"B2": 6, "B4": 3, "B5": 15})
>>> profile.closest()  # 15 > 1 + 6 + 3
'B5'
>>> profile.count(excluded=["B5"])
10.0
>>> profile.add(1, {"B2": 6, "B4": 3})  # one more, without a subscriber behind B5
>>> profile.behind["B5"]
11.25

Source: Cheung and Jacobsen, publisher relocation, sections 3.1 (profile table) and 3.2.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from shoal.model import BrokerId


class Profile:
    """One publisher in a broker's publisher profile table: average numbers of subscribers.

    `traced` counts the publications that are in the averages.
    """

    __slots__ = ("_weight", "behind", "local", "traced")

    def __init__(self, weight_percent: int) -> None:
        self._weight = weight_percent / 100
        self.traced = 0
        self.local = 0.0
        self.behind: dict[BrokerId, float] = {}

    def add(self, local: int, behind: Mapping[BrokerId, int]) -> None:
        """Add one traced publication: subscribers here, and behind the neighbours it was sent to.

        It had none behind other neighbours, and their averages fall. The first one is the first
        average.
        """
        weight = self._weight if self.traced else 1.0
        self.traced += 1
        self.local += weight * (local - self.local)
        averages = self.behind
        for neighbour in behind:
            averages.setdefault(neighbour, 0.0)
        for neighbour, average in averages.items():
            averages[neighbour] = average + weight * (behind.get(neighbour, 0) - average)

    def count(self, excluded: Container[BrokerId] = ()) -> float:
        """Subscribers here, and behind the neighbours that are not excluded."""
        return self.local + sum(
            self.behind[name] for name in sorted(self.behind) if name not in excluded
        )

    def closest(
        self,
        upstream: float = 0.0,
        excluded: Container[BrokerId] = (),
        least_gain_percent: int = 0,
    ) -> BrokerId | None:
        """The neighbour that has more subscribers than all others and this broker, if one has.

        `upstream` subscribers are behind brokers that were asked before, the `excluded`. The
        difference must be more than `least_gain_percent` of all subscribers.
        """
        known = sorted(name for name in self.behind if name not in excluded)
        if not known:
            return None
        best = max(known, key=self.behind.__getitem__)
        everybody = upstream + self.count(excluded)
        gain = 2 * self.behind[best] - everybody
        return best if gain > everybody * least_gain_percent / 100 else None
