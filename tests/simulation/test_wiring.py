"""Links on purpose: lasting ones, ends once everything is settled, and failures."""

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


class RecordingStrategy(BaseStrategy):
    """A strategy that records its inputs, and acts on start as the test says."""

    is_ready = keeps_order = True
    description: Mapping[str, int] = {}
    searched: Sized = ()

    def __init__(self, context: BrokerContext, at_start: list[Effect]) -> None:
        self.neighbours = context.neighbours
        self.expected = context.expected
        self._at_start = at_start
        self.inputs: list[tuple[int, object]] = []

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        out += self._at_start

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        assert isinstance(message, Unsubscribe)
        self.inputs.append((now_us, f"{neighbour} {message.subscription_id}"))
        if message.subscription_id == "release":
            out.append(Release())

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        self.inputs.append((now_us, client))

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self.inputs.append((now_us, f"{neighbour} {state.value}"))

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        self.inputs.append((now_us, loads))

    def costs(self, costs: Costs, now_us: int, out: list[Effect]) -> None:
        self.inputs.append((now_us, costs))


class RecordingWorld:
    """Recording brokers at A, B and C, linked A - B - C, in a world; any two are 1 ms apart."""

    def __init__(self, at_start: Mapping[str, list[Effect]] | None = None, **options) -> None:  # type: ignore[no-untyped-def]
        def system(context: BrokerContext) -> RecordingStrategy:
            return RecordingStrategy(context, list((at_start or {}).get(context.broker, ())))

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
        """The request arrives a moment later."""
        self.world.queue.push(
            at_us,
            lambda now_us, _: self.world._deliver_request(now_us, broker, client, Unsubscribe("")),
            None,
        )

    def diary(self, broker: str) -> RecordingStrategy:
        strategy = self.world.brokers[broker].machine.strategy
        assert isinstance(strategy, RecordingStrategy)
        return strategy

    def inputs_of(self, broker: str) -> list[object]:
        return [what for _, what in self.diary(broker).inputs]

    def up(self) -> set[tuple[str, str]]:
        rows = self.world.brokers.items()
        return {(name, other) for name, node in rows for other in node.links if name < other}


def said(text: str, to: str = "B") -> Send:
    return Send(to, Unsubscribe(text))


# --- lasting links --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_lasting", [False, True])
def test_only_a_lasting_link_outlives_a_crash(is_lasting: bool) -> None:
    lab = RecordingWorld()
    lab.do(10_000, "A", OpenLink("C", is_lasting=is_lasting))
    lab.world.crash(50_000, "C")
    lab.world.restart(60_000, "C")
    lab.world.run(40_000)
    assert lab.up() == {("A", "B"), ("B", "C"), ("A", "C")}
    lab.world.run()
    assert (("A", "C") in lab.up()) == is_lasting
    assert (("A", "C") in lab.world.links) == is_lasting
    assert ("B", "C") in lab.up()


def test_a_restarted_broker_expects_the_present_overlay() -> None:
    lab = RecordingWorld(is_patient=True)
    lab.do(10_000, "A", OpenLink("C", is_lasting=True), EndLink("B"))
    lab.world.crash(50_000, "A")
    lab.world.restart(60_000, "A")
    lab.world.run()
    assert lab.diary("A").expected == ("C",)
    assert lab.up() == {("A", "C"), ("B", "C")}


@pytest.mark.parametrize("is_patient", [False, True])
def test_a_restarted_broker_is_told_its_missing_neighbours(is_patient: bool) -> None:
    """A patient one is not: it has its expected neighbours, and a timeout of its own."""
    lab = RecordingWorld(is_patient=is_patient)
    lab.world.crash(10_000, "A")
    lab.world.cut(10_000, "B", "C")
    lab.world.crash(2_000_000, "B")
    lab.world.restart(4_000_000, "B")
    lab.world.restart(9_000_000, "A")
    lab.world.run()
    missing = [] if is_patient else ["A failed", "C failed"]
    assert lab.inputs_of("B") == [*missing, "A up"]
    assert lab.inputs_of("A") == ["B up"]


def test_a_lasting_link_to_a_missing_broker_comes_up_later() -> None:
    lab = RecordingWorld()
    lab.world.crash(10_000, "C")
    lab.do(20_000, "A", OpenLink("C", is_lasting=True))
    lab.world.restart(5_000_000, "C")
    lab.world.run()
    assert lab.inputs_of("A") == ["C failed", "C up"]


# --- ended links ----------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [None, LOSSY])
def test_a_link_ends_when_its_content_is_settled_in_both_directions(
    faults: LinkFaults | None,
) -> None:
    lab = RecordingWorld(link_faults=faults)
    lab.do(10_000, "A", *(said(f"{n}") for n in range(20)), EndLink("B"))
    lab.do(10_500, "B", *(said(f"{n}", "A") for n in range(20)))
    lab.world.run()
    assert lab.inputs_of("B") == [*(f"A {n}" for n in range(20)), "A ended"]
    assert lab.inputs_of("A") == [*(f"B {n}" for n in range(20)), "B ended"]
    assert lab.up() == {("B", "C")}
    assert lab.world.links == [("B", "C")]


def test_a_link_ends_at_both_ends_at_one_moment_and_not_before() -> None:
    lab = RecordingWorld(costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("slow"), EndLink("B"))
    lab.world.run()
    assert lab.diary("B").inputs == [(15_000, "A slow"), (15_000, "A ended")]
    assert lab.diary("A").inputs == [(15_000, "B ended")]


def test_a_link_that_fails_before_it_has_ended_does_not_come_back() -> None:
    lab = RecordingWorld(costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("lost"), EndLink("B"))
    lab.world.cut(12_000, "A", "B")
    lab.world.heal(13_000, "A", "B")
    lab.world.run()
    assert lab.inputs_of("A") == ["B failed"]
    assert lab.inputs_of("B") == ["A failed"]
    assert lab.up() == {("B", "C")}


def test_patient_neighbours_are_told_of_links_that_do_not_come_back() -> None:
    lab = RecordingWorld(is_patient=True, costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("lost"), EndLink("B"), OpenLink("C"))
    lab.world.crash(13_000, "A")
    lab.world.restart(14_000, "A")
    lab.world.run()
    assert lab.inputs_of("B") == ["A failed"]
    assert lab.inputs_of("C") == ["A up", "A failed"]


def test_a_link_that_is_to_end_ends_despite_new_requests() -> None:
    lab = RecordingWorld(costs=ServiceCosts(transmission_us=4_000))
    lab.do(10_000, "A", said("slow"), EndLink("B"))
    lab.do(12_000, "B", OpenLink("A", is_lasting=True))
    lab.world.run()
    assert lab.inputs_of("A") == ["B ended"]
    assert lab.world.links == [("B", "C")]


@pytest.mark.parametrize(
    ("at_us", "inputs_of"), [(20_000, ["B failed"]), (2_000_000, ["B failed", "B ended"])]
)
def test_both_ends_agree_on_the_end_of_a_link_that_is_down(
    at_us: int, inputs_of: list[str]
) -> None:
    """One end would report the end, and the other a failure."""
    lab = RecordingWorld()
    lab.world.cut(10_000, "A", "B")
    lab.do(at_us, "A", EndLink("B"))
    lab.world.heal(3_000_000, "A", "B")
    lab.world.run()
    assert lab.inputs_of("A") == inputs_of
    assert lab.inputs_of("B") == ["A failed"]
    assert lab.up() == {("B", "C")}


# --- held input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [None, LOSSY])
def test_held_input_comes_in_order(faults: LinkFaults | None) -> None:
    lab = RecordingWorld(link_faults=faults)
    lab.do(10_000, "B", Hold(("C",)))
    lab.do(20_000, "A", said("1"), said("2"))
    lab.ask(20_000, "B", "first")
    lab.ask(30_000, "B", "second")
    lab.do(5_000_000, "C", said("through"), said("release"))
    lab.do(5_000_000, "A", said("3"))
    lab.world.run(4_900_000)
    assert lab.inputs_of("B") == []
    lab.world.run()
    inputs_of = lab.inputs_of("B")
    assert inputs_of[:2] == ["C through", "C release"]
    assert [each for each in inputs_of if str(each).startswith("A")] == ["A 1", "A 2", "A 3"]
    assert [each for each in inputs_of if each in ("first", "second")] == ["first", "second"]


def test_held_input_precedes_later_input() -> None:
    lab = RecordingWorld(costs=ServiceCosts(processing_us=300))
    lab.do(10_000, "B", Hold(("C",)))
    lab.do(20_000, "A", *(said(f"{n}") for n in range(5)))
    lab.ask(20_000, "B", "first")
    lab.do(30_000, "C", said("release"))
    lab.do(30_000, "A", said("5"), said("6"))
    lab.world.run()
    inputs_of = [f"A {n}" for n in range(5)]
    assert lab.inputs_of("B") == ["C release", *inputs_of, "first", "A 5", "A 6"]


def test_another_hold_admits_more_neighbours() -> None:
    lab = RecordingWorld()
    lab.do(10_000, "B", Hold())
    lab.do(20_000, "A", said("1"))
    lab.do(20_000, "C", said("2", "B"))
    lab.do(30_000, "B", Hold(("C",)))
    lab.world.run()
    assert lab.inputs_of("B") == ["C 2"]


def test_held_input_is_unsettled_and_lost_in_a_crash() -> None:
    lab = RecordingWorld()
    lab.do(10_000, "B", Hold())
    lab.do(20_000, "A", said("1"), EndLink("B"))
    lab.world.run(500_000)
    assert lab.inputs_of("A") == []
    lab.world.crash(500_000, "B")
    lab.world.restart(2_000_000, "B")
    lab.do(4_000_000, "C", said("2", "B"))
    lab.world.run()
    assert lab.inputs_of("A") == ["B failed"]
    assert lab.inputs_of("B") == ["C up", "C 2"]


# --- measurements of a broker ---------------------------------------------------------------------


def test_loads_of_each_window_equal_calculated_ones() -> None:
    """Each message takes 20 ms to send; three enter in the first window of 50 ms."""
    lab = RecordingWorld(
        {"A": [WatchLoads(window_us=50_000)]}, costs=ServiceCosts(transmission_us=20_000)
    )
    lab.do(0, "A", said("1"), said("2"), said("3"))
    lab.do(60_000, "A", said("4"))
    lab.do(260_000, "A", said("5"))
    lab.world.run()
    loads = [(now_us, each.links["B"]) for now_us, each in lab.diary("A").inputs]  # type: ignore[attr-defined]
    assert loads == [
        (50_000, LinkLoad(entered=3, left=2, waiting=1)),
        (100_000, LinkLoad(entered=1, left=2, waiting=0)),
        (250_000, LinkLoad(entered=0, left=0, waiting=0)),  # nothing happened in between
    ]


def test_costs_are_reported_on_request_and_on_change() -> None:
    table = {"A": Costs(1.0, {"B": 2.0}), "B": Costs(3.0, {}), "C": Costs(0.5, {"A": 9.0})}
    lab = RecordingWorld({"A": [WatchCosts()]}, message_costs=table)
    lab.world.change_costs(10_000, {**table, "A": Costs(5.0, {"C": 1.0})})
    lab.world.run()
    assert lab.diary("A").inputs == [(0, table["A"]), (10_000, Costs(5.0, {"C": 1.0}))]
    assert lab.inputs_of("B") == []


def test_costs_without_a_table_are_processing_and_latency() -> None:
    lab = RecordingWorld({"A": [WatchCosts()]}, costs=ServiceCosts(processing_us=7))
    lab.world.run()
    assert lab.inputs_of("A") == [Costs(7.0, {"B": 1_000.0, "C": 1_000.0})]
