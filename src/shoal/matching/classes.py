"""Publications that many indexes cannot tell apart: outcomes that these look up by their class.

Brokers of one process, as in the simulator, lead the same publication through one index after the
other, and most have filters of the same subscriptions.  `Classes` has all their filters in one, so
that the way is found once: two publications that take the same way through it match the same
filters of every index.  A class has no name; it is an object of its own.

>>> from shoal.language import parse
>>> classes = Classes()
>>> here, there = classes.outcomes("+".join), classes.outcomes("+".join)
>>> here.add("s1", parse("delay > 30"))
>>> there.add("s2", parse("delay > 30 AND carrier = 'UA'"))
>>> late = {"delay": 45, "carrier": "UA"}
>>> here.of(late), there.of(late)
('s1', 's2')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from shoal.matching.outcomes import Outcomes
from shoal.model import Attributes, Filter

Outcome = TypeVar("Outcome")
# Of no class: filters are tested for the publication, or classes are of no use.
NONE = None

# Number of publications with a remembered class: usually more than are under way at once.
MAX_CLASSIFIED = 4_096
# Classes that one index remembers.
MAX_CLASSES = 10_000
# If half of so many publications are of new classes, the next so many are of none.
SAMPLE = 1_000
PAUSE = 20_000


class _Ways(Outcomes[object | None]):
    """Outcomes that are classes."""

    def __init__(self) -> None:
        super().__init__(lambda ids: NONE)
        self.made = 0

    def _found(self, attributes: Attributes) -> object:
        self.made += 1
        self._remember(1)
        return object()

    def _searched(self, attributes: Attributes) -> None:
        return NONE


class Classes:
    """The filters of all outcomes that `outcomes` makes, and the classes of publications."""

    def __init__(self) -> None:
        # By the identity of attributes, which are kept so that no others get it.
        self.classified: dict[int, object | None] = {}
        self._kept: list[Attributes] = []
        self._ways = _Ways()
        # By the identity of a filter, which the ways keep: in how many places it is.
        self._filters: Counter[int] = Counter()
        self._seen = 0

    def outcomes(
        self,
        make: Callable[[list[Any]], Outcome],
        size_of: Callable[[Outcome], int] = lambda outcome: 0,
    ) -> Outcomes[Outcome]:
        """As `Outcomes(make, size_of)`, for one of many that take in the same publications."""
        return _Classified(make, size_of, self)

    def add(self, filter: Filter) -> None:
        """One more index has this filter."""
        self._filters[id(filter)] += 1
        if self._filters[id(filter)] == 1:
            self._ways.add(id(filter), filter)
            self._forget()

    def remove(self, filter: Filter) -> None:
        """One index less has it."""
        self._filters[id(filter)] -= 1
        if not self._filters[id(filter)]:
            del self._filters[id(filter)]
            self._ways.remove(id(filter))
            self._forget()

    def class_of(self, attributes: Attributes) -> object | None:
        """Of which class a publication is: looked up once."""
        if id(attributes) not in self.classified:
            if len(self.classified) >= MAX_CLASSIFIED:
                self._forget()
            self._kept.append(attributes)
            found = self._ways.of(attributes) if self._are_useful() else NONE
            self.classified[id(attributes)] = found
        return self.classified[id(attributes)]

    def _forget(self) -> None:
        self.classified.clear()
        self._kept.clear()

    def _are_useful(self) -> bool:
        self._seen += 1
        if (self._seen == SAMPLE and self._ways.made <= SAMPLE // 2) or self._seen == PAUSE:
            self._seen = self._ways.made = 0
        return self._seen < SAMPLE


class _Classified(Outcomes[Outcome]):
    """Outcomes that are remembered by class, until a filter of this index comes or goes."""

    def __init__(
        self,
        make: Callable[[list[Any]], Outcome],
        size_of: Callable[[Outcome], int],
        classes: Classes,
    ) -> None:
        super().__init__(make, size_of)
        self._classes = classes
        self._classified = classes.classified
        self._by_class: dict[object, Outcome] = {}
        self._filters: dict[Hashable, Filter] = {}

    def add(self, id: Hashable, filter: Filter) -> None:
        super().add(id, filter)
        self._classes.add(filter)
        if id in self._filters:
            self._classes.remove(self._filters[id])
        self._filters[id] = filter
        self._by_class.clear()

    def remove(self, id: Hashable) -> None:
        super().remove(id)
        self._classes.remove(self._filters.pop(id))
        self._by_class.clear()

    def of(self, attributes: Attributes) -> Outcome:
        outcome = self._by_class.get(self._classified.get(id(attributes)))
        return self._look_up(attributes) if outcome is None else outcome

    def _look_up(self, attributes: Attributes) -> Outcome:
        """Look up the outcome of a publication without a class, or of a class without a known
        outcome.
        """
        known = self._classes.class_of(attributes)
        outcome = self._by_class.get(known)
        if outcome is None:
            outcome = super().of(attributes)
            if known is not NONE:
                if len(self._by_class) >= MAX_CLASSES:
                    self._by_class.clear()
                self._by_class[known] = outcome
        return outcome
