"""Links on purpose: they last, end when all in them is settled, and fail as they must."""

from __future__ import annotations

from collections.abc import Mapping, Sized

import pytest

from shoal.broker.effects import (
    Costs,
    Effect,
    EndLink,
    Hold,
    LinkLoad,
    LinkState,
    Loads,
    OpenLink,
    Release,
    Send,
    Started,
    WatchCosts,
    WatchLoads,
)
from shoal.broker.messages import Message, Unsubscribe
from shoal.broker.strategy import BaseStrategy, BrokerContext
from shoal.model import BrokerId, ClientId
from shoal.simulation.faults import LinkFaults
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

WAY_US = 1_000
LOSSY = LinkFaults(loss=0.3, jitter_us=5_000)


class Diary(BaseStrategy):
    """Writes down what it hears, and does on start what the test says."""

    is_ready = keeps_order = True
    description: Mapping[str, int] = {}
    searched: Sized = ()

    def __init__(self, context: BrokerContext, at_start: list[Effect]) -> None:
        self.neighbours = context.neighbours
        self.expected = context.expected
        self._at_start = at_start
        self.heard: list[tuple[int, object]] = []

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        out += self._at_start

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        assert isinstance(message, Unsubscribe)
        self.heard.append((now_us, f"{neighbour} {message.subscription_id}"))
        if message.subscription_id == "release":
            out.append(Release())

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        self.heard.append((now_us, client))

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self.heard.append((now_us, f"{neighbour} {state.value}"))

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        self.heard.append((now_us, loads))

    def costs(self, costs: Costs, now_us: int, out: list[Effect]) -> None:
        self.heard.append((now_us, costs))


class Lab:
    """Diaries at A, B and C, linked A - B - C, in a world; everything is 1 ms from everything."""

    def __init__(self, at_start: Mapping[str, list[Effect]] | None = None, **options) -> None:  # type: ignore[no-untyped-def]
        def system(context: BrokerContext) -> Diary:
            return Diary(context, list((at_start or {}).get(context.broker, ())))

        self.world = World(
            [("A", "B"), ("B", "C")],
            system,
            ConstantUnderlay(WAY_US),
            **options,
        )
        for client in ("first", "second"):
            self.world.add_subscriber(client, client)

    def do(self, at_us: int, broker: str, *effects: Effect) -> None:
        def carry_out(now_us: int, _: None) -> None:
            node = self.world.brokers[broker]
            machine = node.machine
            if hasattr(machine, "_carry_out"):  # behind reliable links
                out: list[Effect] = []
                machine._carry_out(list(effects), now_us, out)
                node._carry_out(out, now_us)
            else:
                node._carry_out(list(effects), now_us)

        self.world.queue.push(at_us, carry_out, None)

    def ask(self, at_us: int, broker: str, client: str) -> None:
        """Its request comes a moment later."""
        self.world.queue.push(
            at_us,
            lambda now_us, _: self.world._ask(now_us, broker, client, Unsubscribe("")),
            None,
        )

    def diary(self, broker: str) -> Diary:
        strategy = self.world.brokers[broker].machine.strategy
        assert isinstance(strategy, Diary)
        return strategy

    def heard(self, broker: str) -> list[object]:
        return [what for _, what in self.diary(broker).heard]

    def up(self) -> set[tuple[str, str]]:
        rows = self.world.brokers.items()
        return {(name, other) for name, node in rows for other in node.links if name < other}


def said(text: str, to: str = "B") -> Send:
    return Send(to, Unsubscribe(text))


# --- links that last ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_lasting", [False, True])
def test_only_a_lasting_link_outlives_a_crash(is_lasting: bool) -> None:
    lab = Lab()
    lab.do(10_000, "A", OpenLink("C", is_lasting=is_lasting))
    lab.world.crash(50_000, "C")
    lab.world.restart(60_000, "C")
    lab.world.run(40_000)
    assert lab.up() == {("A", "B"), ("B", "C"), ("A", "C")}
    lab.world.run()
    assert (("A", "C") in lab.up()) == is_lasting
    assert (("A", "C") in lab.world.links) == is_lasting
    assert ("B", "C") in lab.up()


def test_who_starts_again_expects_the_overlay_as_it_is_now() -> None:
    lab = Lab(is_patient=True)
    lab.do(10_000, "A", OpenLink("C", is_lasting=True), EndLink("B"))
    lab.world.crash(50_000, "A")
    lab.world.restart(60_000, "A")
    lab.world.run()
    assert lab.diary("A").expected == ("C",)
    assert lab.up() == {("A", "C"), ("B", "C")}


@pytest.mark.parametrize("is_patient", [False, True])
def test_who_starts_again_is_told_which_neighbours_are_not_there(is_patient: bool) -> None:
    """A patient one is told nothing: it has its neighbours to expect, and a patience of its own."""
    lab = Lab(is_patient=is_patient)
    lab.world.crash(10_000, "A")
    lab.world.cut(10_000, "B", "C")
    lab.world.crash(2_000_000, "B")
    lab.world.restart(4_000_000, "B")
    lab.world.restart(9_000_000, "A")
    lab.world.run()
    missing = [] if is_patient else ["A failed", "C failed"]
    assert lab.heard("B") == [*missing, "A up"]
    assert lab.heard("A") == ["B up"]


def test_a_lasting_link_to_who_is_not_there_comes_when_it_is() -> None:
    lab = Lab()
    lab.world.crash(10_000, "C")
    lab.do(20_000, "A", OpenLink("C", is_lasting=True))
    lab.world.restart(5_000_000, "C")
    lab.world.run()
    assert lab.heard("A") == ["C failed", "C up"]


# --- links that end -------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [None, LOSSY])
def test_a_link_ends_when_what_is_in_it_is_settled_both_ways(faults: LinkFaults | None) -> None:
    lab = Lab(link_faults=faults)
    lab.do(10_000, "A", *(said(f"{n}") for n in range(20)), EndLink("B"))
    lab.do(10_500, "B", *(said(f"{n}", "A") for n in range(20)))
    lab.world.run()
    assert lab.heard("B") == [*(f"A {n}" for n in range(20)), "A ended"]
    assert lab.heard("A") == [*(f"B {n}" for n in range(20)), "B ended"]
    assert lab.up() == {("B", "C")}
    assert lab.world.links == [("B", "C")]


def test_a_link_ends_at_both_ends_at_one_moment_and_not_before() -> None:
    lab = Lab(costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("slow"), EndLink("B"))
    lab.world.run()
    assert lab.diary("B").heard == [(15_000, "A slow"), (15_000, "A ended")]
    assert lab.diary("A").heard == [(15_000, "B ended")]


def test_a_link_that_fails_before_it_has_ended_does_not_come_back() -> None:
    lab = Lab(costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("lost"), EndLink("B"))
    lab.world.cut(12_000, "A", "B")
    lab.world.heal(13_000, "A", "B")
    lab.world.run()
    assert lab.heard("A") == ["B failed"]
    assert lab.heard("B") == ["A failed"]
    assert lab.up() == {("B", "C")}


def test_patient_neighbours_hear_of_links_that_do_not_come_back() -> None:
    lab = Lab(is_patient=True, costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("lost"), EndLink("B"), OpenLink("C"))
    lab.world.crash(13_000, "A")
    lab.world.restart(14_000, "A")
    lab.world.run()
    assert lab.heard("B") == ["A failed"]
    assert lab.heard("C") == ["A up", "A failed"]


def test_a_link_that_is_to_end_ends_whoever_asks_for_it_meanwhile() -> None:
    lab = Lab(costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("slow"), EndLink("B"))
    lab.do(12_000, "B", OpenLink("A", is_lasting=True))
    lab.world.run()
    assert lab.heard("A") == ["B ended"]
    assert lab.world.links == [("B", "C")]


@pytest.mark.parametrize(
    ("at_us", "heard"), [(20_000, ["B failed"]), (2_000_000, ["B failed", "B ended"])]
)
def test_a_link_that_is_down_fails_at_both_ends_or_has_failed_and_ends(
    at_us: int, heard: list[str]
) -> None:
    """One end heard that it had ended, and the other that it had failed."""
    lab = Lab()
    lab.world.cut(10_000, "A", "B")
    lab.do(at_us, "A", EndLink("B"))
    lab.world.heal(3_000_000, "A", "B")
    lab.world.run()
    assert lab.heard("A") == heard
    assert lab.heard("B") == ["A failed"]
    assert lab.up() == {("B", "C")}


# --- what is held back ----------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [None, LOSSY])
def test_what_is_held_back_comes_in_its_order(faults: LinkFaults | None) -> None:
    lab = Lab(link_faults=faults)
    lab.do(10_000, "B", Hold(("C",)))
    lab.do(20_000, "A", said("1"), said("2"))
    lab.ask(20_000, "B", "first")
    lab.ask(30_000, "B", "second")
    lab.do(5_000_000, "C", said("through"), said("release"))
    lab.do(5_000_000, "A", said("3"))
    lab.world.run(4_900_000)
    assert lab.heard("B") == []
    lab.world.run()
    heard = lab.heard("B")
    assert heard[:2] == ["C through", "C release"]
    assert [each for each in heard if str(each).startswith("A")] == ["A 1", "A 2", "A 3"]
    assert [each for each in heard if each in ("first", "second")] == ["first", "second"]


def test_what_is_held_back_comes_before_what_comes_later() -> None:
    lab = Lab(costs=ServiceCosts(processing_us=300))
    lab.do(10_000, "B", Hold(("C",)))
    lab.do(20_000, "A", *(said(f"{n}") for n in range(5)))
    lab.ask(20_000, "B", "first")
    lab.do(30_000, "C", said("release"))
    lab.do(30_000, "A", said("5"), said("6"))
    lab.world.run()
    heard = [f"A {n}" for n in range(5)]
    assert lab.heard("B") == ["C release", *heard, "first", "A 5", "A 6"]


def test_another_hold_lets_more_come() -> None:
    lab = Lab()
    lab.do(10_000, "B", Hold())
    lab.do(20_000, "A", said("1"))
    lab.do(20_000, "C", said("2", "B"))
    lab.do(30_000, "B", Hold(("C",)))
    lab.world.run()
    assert lab.heard("B") == ["C 2"]


def test_what_is_held_back_is_not_settled_and_lost_in_a_crash() -> None:
    lab = Lab()
    lab.do(10_000, "B", Hold())
    lab.do(20_000, "A", said("1"), EndLink("B"))
    lab.world.run(500_000)
    assert lab.heard("A") == []
    lab.world.crash(500_000, "B")
    lab.world.restart(2_000_000, "B")
    lab.do(4_000_000, "C", said("2", "B"))
    lab.world.run()
    assert lab.heard("A") == ["B failed"]
    assert lab.heard("B") == ["C up", "C 2"]


# --- what a broker sees of its surroundings -------------------------------------------------------


def test_loads_of_each_window_by_hand() -> None:
    """Each message takes 20 ms to send; three enter in the first window of 50 ms."""
    lab = Lab({"A": [WatchLoads(window_us=50_000)]}, costs=ServiceCosts(transmission_us=20_000))
    lab.do(0, "A", said("1"), said("2"), said("3"))
    lab.do(60_000, "A", said("4"))
    lab.do(260_000, "A", said("5"))
    lab.world.run()
    loads = [(now_us, each.links["B"]) for now_us, each in lab.diary("A").heard]  # type: ignore[attr-defined]
    assert loads == [
        (50_000, LinkLoad(entered=3, left=2, waiting=1)),
        (100_000, LinkLoad(entered=1, left=2, waiting=0)),
        (250_000, LinkLoad(entered=0, left=0, waiting=0)),  # nothing happened in between
    ]


def test_costs_are_told_who_asks_now_and_when_they_change() -> None:
    table = {"A": Costs(1.0, {"B": 2.0}), "B": Costs(3.0, {}), "C": Costs(0.5, {"A": 9.0})}
    lab = Lab({"A": [WatchCosts()]}, message_costs=table)
    lab.world.change_costs(10_000, {**table, "A": Costs(5.0, {"C": 1.0})})
    lab.world.run()
    assert lab.diary("A").heard == [(0, table["A"]), (10_000, Costs(5.0, {"C": 1.0}))]
    assert lab.heard("B") == []


def test_costs_without_a_table_are_processing_and_ways() -> None:
    lab = Lab({"A": [WatchCosts()]}, costs=ServiceCosts(processing_us=7))
    lab.world.run()
    assert lab.heard("A") == [Costs(7.0, {"B": 1_000.0, "C": 1_000.0})]
