"""Equal states have equal fingerprints, and states of other content have others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.exploration.machine_states import fingerprint


class Row:
    """An object that is made when its table is read."""

    def __init__(self, number: int) -> None:
        self.number = number


class Table:
    """Iterates over objects that nothing else keeps, so that later ones may get their ids."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers

    def __iter__(self) -> Iterator[Row]:
        return map(Row, self._numbers)


def test_objects_that_are_made_for_a_fingerprint_count_with_their_content() -> None:
    assert fingerprint(Table(1, 2, 3)) == fingerprint(Table(1, 2, 3))
    assert fingerprint(Table(1, 2, 3)) != fingerprint(Table(1, 2, 4))


def test_arrays_count_with_their_content() -> None:
    """Their elements are objects only while they are read."""
    array = np.arange(9, dtype=np.uint64)
    assert fingerprint([array]) == fingerprint([array.copy()])
    assert fingerprint([array]) != fingerprint([array[::-1]])
    assert fingerprint(array[0]) != fingerprint(array[1])


def test_a_shared_object_is_not_two_equal_ones() -> None:
    shared = [1]
    assert fingerprint([shared, shared]) != fingerprint([[1], [1]])
