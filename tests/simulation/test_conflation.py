"""`$every` and `$changed` of simulated subscriptions: clients that move, and late publications."""

from __future__ import annotations

from shoal.language.conflation_rules import read_conflation
from shoal.simulation.conflation import SimulatedConflation
from shoal.simulation.event_queue import EventQueue
from tests.broker.transcript import publication, publish
from tests.simulation.test_world import SETTLED_US, world

SECOND_US = 1_000_000


def test_a_held_publication_reaches_a_client_that_has_moved_once() -> None:
    made = world(links=(("B1", "B2"), ("B2", "B3")))
    made.conflation.add("s", "C", read_conflation("10s", "x"))
    for number in (1, 2):
        made.request(SETTLED_US + number, "P", publish(number))
    made.move(5 * SECOND_US, "C", "B3")
    made.run()
    first, held = made.trace.deliveries
    assert (first.publication.sequence, held.publication.sequence) == (1, 2)
    assert 10 * SECOND_US <= held.delivered_us - first.delivered_us < 11 * SECOND_US
    assert [row.delivered for row in made.conflation.rows()] == [2]


def test_a_late_publication_is_no_newest_value() -> None:
    queue = EventQueue()
    conflation = SimulatedConflation(queue)
    conflation.add("s", "C", read_conflation("10s", ""))
    found: list[int] = []
    for number in (1, 3, 2):
        conflation.take(
            publication(number), ("s",), 0, lambda names, at_us, number=number: found.append(number)
        )
    queue.run_until(60 * SECOND_US)
    assert found == [1, 3]
    assert [row.superseded for row in conflation.rows()] == [1]
