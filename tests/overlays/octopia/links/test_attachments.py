"""Who is used, who is awaited, and who is left alone."""

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


def test_nobody_worse_is_awaited_while_who_is_used_says_all_anew() -> None:
    """It would be left again at once: each answer of it asked all others like it for more."""
    bench = Bench()
    bench.attachments.ready(bench.purpose, "b")
    bench.settle()
    assert (bench.purpose.current, bench.awaited) == ("b", ["a"])
    bench.attachments.linked("b")  # it has started again
    bench.awaited.clear()
    bench.settle()
    assert (bench.purpose.current, bench.awaited) == ("b", ["a", "b"])


def test_who_is_ready_takes_the_place_of_who_has_to_say_all_anew() -> None:
    bench = Bench()
    bench.attachments.ready(bench.purpose, "a")
    bench.settle()
    bench.attachments.ready(bench.purpose, "c")
    bench.attachments.linked("a")
    bench.settle()
    assert bench.purpose.current == "c"


def test_who_is_used_is_left_for_somebody_better_when_it_may_be() -> None:
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
