"""Attachments: the broker that is used for a purpose, and those that are awaited."""

from __future__ import annotations

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.octopia.links.attachments import Attachment, Attachments


class Bench:
    """One purpose with three candidates, all linked."""

    def __init__(self) -> None:
        self.awaited: list[BrokerId] = []
        self.may_leave = True
        self.purpose = Attachment(("a", "b", "c"))
        self.attachments = Attachments(
            [self.purpose],
            (),
            1_000,
            self._await,
            lambda *_: None,
            lambda _: False,
            lambda *_: self.may_leave,
        )
        for each in self.purpose.candidates:
            self.attachments.linked(each)

    def _await(self, purpose: Attachment, broker: BrokerId, out: list[Effect]) -> None:
        self.awaited.append(broker)

    def settle(self) -> None:
        self.attachments.settle(0, [])


def test_no_worse_broker_is_awaited_while_the_current_one_resends_its_tables() -> None:
    """It would be left again at once, and each answer would cause further requests."""
    bench = Bench()
    bench.attachments.ready(bench.purpose, "b")
    bench.settle()
    assert (bench.purpose.current, bench.awaited) == ("b", ["a"])
    bench.attachments.linked("b")  # it has restarted
    bench.awaited.clear()
    bench.settle()
    assert (bench.purpose.current, bench.awaited) == ("b", ["a", "b"])


def test_a_ready_broker_replaces_one_that_must_resend_its_tables() -> None:
    bench = Bench()
    bench.attachments.ready(bench.purpose, "a")
    bench.settle()
    bench.attachments.ready(bench.purpose, "c")
    bench.attachments.linked("a")
    bench.settle()
    assert bench.purpose.current == "c"


def test_a_better_broker_replaces_the_current_one_once_allowed() -> None:
    bench = Bench()
    bench.attachments.ready(bench.purpose, "b")
    bench.settle()
    bench.may_leave = False
    bench.attachments.ready(bench.purpose, "a")
    bench.settle()
    assert bench.purpose.current == "b"
    bench.may_leave = True
    bench.settle()
    assert bench.purpose.current == "a"
