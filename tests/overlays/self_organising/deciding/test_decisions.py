"""The messages that lead to an advised link, and the reasons that prevent one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import (
    Costs,
    Effect,
    Input,
    LinkChanged,
    LinkState,
    Received,
    Send,
    TimerFired,
)
from shoal.broker.messages import Advertise, Message, Subscribe
from shoal.overlays.self_organising.deciding.interest import InterestSummary
from shoal.overlays.self_organising.deciding.neighbourhood import MAX_KNOWN, NeighbourHop
from shoal.overlays.self_organising.deciding.planner import ON_ITS_WAY_US, Cycle
from shoal.overlays.self_organising.decisions import TIMER, UNCHANGED
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.messages import Broadcast, ExchangeProposal
from shoal.overlays.self_organising.parameters import (
    Consensus,
    Heuristic,
    InterestMeasure,
    SelfOrganisingParameters,
)
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.overlays.self_organising.rules import HOUR_US
from tests.broker.transcript import Stage, advertisement, publish, subscription
from tests.examples import examples
from tests.overlays.self_organising.anything import self_organising_messages

# Figure 2, tree (a): B2 - B1 - B3.
TREE_A = (("B2", "B1"), ("B1", "B3"))
FIGURE_2: Mapping[frozenset[str], float] = {
    frozenset(("B1", "B2")): 1.0,
    frozenset(("B1", "B3")): 3.0,
    frozenset(("B2", "B3")): 4.0,
}
# Of the last quarter of an interval.
COUNTED_US = SelfOrganisingParameters().interval_us // 4
LINE = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"), ("B4", "B5"), ("B5", "B6"))


def stage(
    links: tuple[tuple[str, str], ...] = TREE_A,
    costs: Mapping[frozenset[str], float] = FIGURE_2,
    **parameters: object,
) -> Stage:
    """A network whose brokers know their costs: 2 at each broker, and these over links.

    Parameters are the paper's, with any gain accepted, and interest as that of a broker's own
    clients.
    """
    paper: dict[str, object] = {
        "least_gain_percent": 0,
        "interest": InterestMeasure.LOCAL,
        "rest_intervals": 1,
    }
    made = Stage(links, "self_organising", SelfOrganisingParameters(**(paper | parameters)))  # type: ignore[arg-type]
    for broker in made.brokers:
        pairs = [pair for pair in costs if broker in pair]
        to = {other: costs[pair] for pair in pairs for other in pair - {broker}}
        made.handle(broker, Costs(2.0, to))
    return made


def traffic(here: Stage, publisher: str, subscribers: tuple[str, ...], count: int) -> None:
    """So many publications of one broker for these others."""
    here.ask(publisher, "P", Advertise(advertisement("a")))
    here.settle()
    for broker in subscribers:
        here.ask(broker, f"C{broker}", Subscribe(subscription(f"s{broker}", client=f"C{broker}")))
    here.settle()
    here.ask(publisher, "P", *(publish(number) for number in range(count)))
    here.settle()


def interval(here: Stage) -> list[ProposalRecord]:
    """One broadcast of each broker; the records of the interval."""
    before = len(here.records)
    for broker in here.brokers:
        here.handle(broker, TimerFired(TIMER))
    here.settle()
    assert not here.refusals()
    return [row for row in here.records[before:] if isinstance(row, ProposalRecord)]


def test_the_first_example_of_figure_2_is_advised() -> None:
    here = stage()
    traffic(here, "B2", ("B3",), 10)
    # Both ends propose, and either decides.
    rows = {row.broker: row for row in interval(here)}
    assert set(rows) == {"B2", "B3"}
    for broker, row in rows.items():
        assert (row.outcome, row.reason, row.right, row.hops) == ("advised", "", broker, 2)
        assert {row.left, row.right} == {"B2", "B3"}
        assert {row.old_left, row.old_right} == {"B1", "B3"}
        assert (row.cost_now, row.cost_then) == (120, 80)


def test_counted_costs_are_those_of_the_notifications() -> None:
    """Not those of pairs' interest: the ends of a delivery tree cost the same in any tree."""
    here = stage(consensus=Consensus.COUNTED)
    traffic(here, "B2", ("B3",), 10)
    # Counting has not lasted long enough.
    assert [(row.cost_now, row.cost_then) for row in interval(here)] == [(120, 80)] * 2
    here.now_us += COUNTED_US
    here.ask("B2", "P", publish(*range(20, 30)))
    here.settle()
    rows = interval(here)
    assert {row.broker for row in rows} == {"B2", "B3"}
    for row in rows:
        assert row.outcome == "advised"
        assert {row.old_left, row.old_right} == {"B1", "B3"}
        assert (row.cost_now, row.cost_then) == (60, 40)


def test_a_forwarder_counts_as_interested_in_passing_notifications() -> None:
    """So B1's part as a forwarder is not counted as a saving: the price of knowing what links
    carry.
    """
    here = stage(interest=InterestMeasure.PASSING)
    traffic(here, "B2", ("B3",), 10)
    assert interval(here) + interval(here) == []


def test_the_second_example_of_figure_2_is_not_changed() -> None:
    here = stage()
    here.ask("B2", "P", Advertise(advertisement("a")))
    here.settle()
    here.ask("B1", "C1", Subscribe(subscription("s1", "x < 9", "C1")))
    here.ask("B3", "C3", Subscribe(subscription("s3", client="C3")))
    here.settle()
    here.ask("B2", "P", publish(*range(10)))
    here.settle()
    assert interval(here) == []
    assert not list(here.sent(ExchangeProposal))


@pytest.mark.parametrize(("heuristic", "removed"), [("mst", None), ("mit", ("B1", "B3"))])
def test_the_baselines_on_the_second_example(
    heuristic: str, removed: tuple[str, str] | None
) -> None:
    here = stage(heuristic=Heuristic(heuristic))
    here.ask("B2", "P", Advertise(advertisement("a")))
    here.settle()
    here.ask("B1", "C1", Subscribe(subscription("s1", "x < 9", "C1")))
    here.ask("B3", "C3", Subscribe(subscription("s3", client="C3")))
    here.settle()
    here.ask("B2", "P", publish(*range(10)))
    here.settle()
    # After one interval each broker knows the others, and what links share.
    rows = interval(here) + interval(here)
    if removed is None:
        assert rows == []
    else:
        assert {tuple(sorted((r.old_left or "", r.old_right or ""))) for r in rows} == {removed}


def test_broadcasts_go_so_many_hops() -> None:
    for hops in (1, 2, 4):
        here = stage(LINE, {frozenset(link): 1.0 for link in LINE}, neighbourhood_hops=hops)
        interval(here)
        known = {name: broker.strategy.decisions.known for name, broker in here.brokers.items()}
        assert known["B1"] == min(hops, 5)
        assert known["B3"] == min(hops, 2) + min(hops, 3)
        if hops == 1:  # no broker can propose anything
            assert not list(here.sent(ExchangeProposal))


def test_no_broadcast_before_costs_are_known() -> None:
    here = Stage(TREE_A, "self_organising")
    interval(here)
    assert not list(here.sent(Broadcast))
    here.handle("B2", Costs(1.0, {"B1": 1.0}))
    interval(here)  # B1 does not know what the link costs, and passes nothing on
    assert [row[:2] for row in here.sent(Broadcast)] == [("B2", "B1")]


def test_a_forbidden_link_is_not_proposed() -> None:
    reachable = {pair: cost for pair, cost in FIGURE_2.items() if "B1" in pair}
    here = stage(costs=reachable)
    traffic(here, "B2", ("B3",), 10)
    assert interval(here) == []


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"forbidden": (("B3", "B2"),)}, "is forbidden"),
        ({"frozen": True}, "links are frozen"),
    ],
)
def test_links_outside_the_operators_rules_are_not_proposed(
    parameters: dict[str, object], reason: str
) -> None:
    here = stage(**parameters)
    traffic(here, "B2", ("B3",), 10)
    rows = interval(here)
    assert {row.outcome for row in rows} == {"refused"}
    assert all(reason in row.reason for row in rows)
    assert not list(here.sent(ExchangeProposal))


def test_a_repeated_refusal_is_recorded_once() -> None:
    here = stage(frozen=True)
    traffic(here, "B2", ("B3",), 10)
    assert len(interval(here)) == 2
    here.ask("B2", "P", publish(*range(10, 20)))
    here.settle()
    assert interval(here) == []


def test_a_pinned_link_stays_and_the_next_best_is_removed() -> None:
    here = stage(pinned=(("B3", "B1"),))
    traffic(here, "B2", ("B3",), 10)
    assert {(row.outcome, row.cost_then) for row in interval(here)} == {("advised", 80)}
    here = stage(pinned=(("B3", "B1"), ("B1", "B2")))
    traffic(here, "B2", ("B3",), 10)
    reasons = {(row.outcome, row.reason) for row in interval(here)}
    assert reasons == {("refused", "B1 - B3 is pinned"), ("refused", "B3 - B1 is pinned")}


def test_a_broker_at_its_bound_of_links_loses_one_for_the_new_one() -> None:
    here = stage(max_degree=1)
    traffic(here, "B2", ("B3",), 10)
    # B2 and B3 are full: whichever link goes, one of them would have two.
    assert {row.outcome for row in interval(here)} == {"refused"}
    here = stage((("B2", "B1"), ("B1", "B3"), ("B3", "B4")), max_degree=2)
    traffic(here, "B2", ("B3",), 10)
    rows = interval(here)
    assert {row.outcome for row in rows} == {"advised"}
    assert {"B1", "B3"} == {end for row in rows for end in (row.old_left, row.old_right)}


class Exchanging:
    """Records the exchanges that it is asked to carry out."""

    def __init__(self) -> None:
        self.begun: list[LinkExchange] = []
        self.busy = ""

    def begin(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        self.begun.append(exchange)


def exchanging(here: Stage) -> dict[str, Exchanging]:
    found = {name: Exchanging() for name in here.brokers}
    for name, broker in here.brokers.items():
        broker.strategy.decisions._exchanges = found[name]
    return found


def test_a_decided_exchange_is_carried_out() -> None:
    here = stage()
    exchanges = exchanging(here)
    traffic(here, "B2", ("B3",), 10)
    # Both ends propose it; one gives way, or each would find the other busy for ever.
    rows = {row.broker: (row.outcome, row.reason) for row in interval(here)}
    assert rows == {"B3": ("agreed", ""), "B2": ("refused", "B2 proposed it, too")}
    exchange = LinkExchange(cycle=("B2", "B1", "B3"), remove=1, saving=40.0)
    assert exchanges["B3"].begun == [exchange]
    assert (exchange.new_link, exchange.old_link) == (("B2", "B3"), ("B1", "B3"))
    assert exchanges["B1"].begun == []


def test_nothing_is_exchanged_if_one_broker_only_recommends() -> None:
    here = stage()
    exchanges = exchanging(here)
    here.brokers["B1"].strategy.decisions._exchanges = None
    traffic(here, "B2", ("B3",), 10)
    assert "advised" in {row.outcome for row in interval(here)}
    assert not any(each.begun for each in exchanges.values())


def test_a_busy_broker_refuses_with_a_reason() -> None:
    here = stage()
    exchanges = exchanging(here)
    exchanges["B1"].busy = "B1 is busy"
    traffic(here, "B2", ("B3",), 10)
    (row,) = interval(here)  # the second proposal of the two is refused for the same reason
    assert (row.broker, row.outcome, row.reason) == ("B1", "refused", "B1 is busy")
    assert not any(each.begun for each in exchanges.values())


def test_the_number_of_exchanges_per_hour_is_bounded() -> None:
    here = stage(exchanges_per_hour=1)
    exchanging(here)
    decisions = here.brokers["B1"].strategy.decisions
    exchange = LinkExchange(cycle=("B4", "B1", "B5"), remove=0, saving=1.0)
    out: list[Effect] = []
    decisions.done(exchange, here.now_us, out)
    assert out == []  # B5 sends it
    traffic(here, "B2", ("B3",), 10)
    (row,) = interval(here)
    assert (row.broker, "no more are allowed" in row.reason) == ("B1", True)
    here.now_us += HOUR_US
    here.ask("B2", "P", publish(*range(10, 20)))
    here.settle()
    assert "agreed" in {row.outcome for row in interval(here)}


def test_the_result_of_an_exchange_is_recorded_at_its_decider() -> None:
    here = stage()
    exchange = LinkExchange(cycle=("B2", "B1", "B3"), remove=1, saving=40.0)
    last = here.brokers["B3"].strategy.decisions
    out: list[Effect] = []
    last.done(exchange, 5, out)
    last.refused(exchange, "B1 is gone", 6, out)
    rows = [effect.record for effect in out]
    assert [(row.outcome, row.reason, row.old_left, row.old_right) for row in rows] == [
        ("done", "", "B1", "B3"),
        ("failed", "B1 is gone", "B1", "B3"),
    ]


def test_broadcasts_over_a_lost_link_expire_when_not_repeated() -> None:
    """Not at once: the brokers behind an exchanged link are still there."""
    here = stage(LINE, {frozenset(link): 1.0 for link in LINE}, neighbourhood_hops=5)
    interval(here)
    here.handle("B3", LinkChanged("B4", LinkState.FAILED))
    decisions = here.brokers["B3"].strategy.decisions
    assert decisions.known == 5
    decisions.done(LinkExchange(cycle=("B1", "B2", "B3"), remove=1, saving=1.0), 5, [])
    assert decisions.known == 5
    here.handle("B3", TimerFired(TIMER))
    here.handle("B3", TimerFired(TIMER))
    assert decisions.known == 0


def test_a_proposal_over_a_lost_link_is_refused() -> None:
    here = stage()
    traffic(here, "B2", ("B3",), 10)
    interval(here)
    (proposal,) = {row[2] for row in here.sent(ExchangeProposal) if row[:2] == ("B2", "B1")}
    here.break_link("B1", "B3")
    before = len(here.records)
    here.tell("B2", "B1", proposal)
    (row,) = here.records[before:]
    assert (row.outcome, row.reason) == ("refused", "B1 has no link to B3")


GOOD = Cycle(brokers=("B2", "B1", "B3"), processing=(1.0,) * 3, costs=(1.0,) * 3)
EMPTY = InterestSummary(0, 0, b"")


@pytest.mark.parametrize(
    "message",
    [
        Broadcast(1, EMPTY, ()),
        Broadcast(0, EMPTY, (NeighbourHop("B2", 1.0),)),
        Broadcast(17, EMPTY, (NeighbourHop("B2", 1.0),)),
        Broadcast(1, EMPTY, (NeighbourHop("B2", 1.0), NeighbourHop("B3", 1.0))),
        Broadcast(1, EMPTY, (NeighbourHop("B2", 1.0), NeighbourHop("B2", 1.0))),
        Broadcast(1, EMPTY, (NeighbourHop("B2", float("nan")),)),
        Broadcast(1, EMPTY, (NeighbourHop("B2", 1.0, -1.0),)),
        Broadcast(1, EMPTY, (NeighbourHop("B2", 1.0, 1.0, -1),)),
        Broadcast(1, InterestSummary(8, 1, b""), (NeighbourHop("B2", 1.0),)),
        ExchangeProposal(GOOD, (1.0, 2.0)),
        ExchangeProposal(GOOD, (1.0, 2.0, float("inf"))),
        ExchangeProposal(msgspec.structs.replace(GOOD, brokers=("B3", "B1", "B2")), (0.0,) * 3),
        ExchangeProposal(msgspec.structs.replace(GOOD, brokers=("B1", "B3", "B2")), (0.0,) * 3),
        ExchangeProposal(msgspec.structs.replace(GOOD, brokers=("B2", "B1", "B2")), (0.0,) * 3),
        ExchangeProposal(msgspec.structs.replace(GOOD, brokers=("B2", "B1")), (0.0,) * 3),
        ExchangeProposal(msgspec.structs.replace(GOOD, costs=(1.0,)), (0.0,) * 3),
        ExchangeProposal(msgspec.structs.replace(GOOD, shared=(1,)), (0.0,) * 3),
        ExchangeProposal(msgspec.structs.replace(GOOD, shared=(1, 2, -3)), (0.0,) * 3),
    ],
)
def test_invalid_messages_of_a_neighbour_are_refused(message: Message) -> None:
    here = stage()
    here.handle("B1", Received("B2", message))
    assert len(here.refusals()) == 1
    assert here.brokers["B1"].strategy.decisions.known == 0


def test_a_repeated_broadcast_is_dropped() -> None:
    here = stage()
    here.take_transcript()
    way = (NeighbourHop("B3", 1.0), NeighbourHop("B1", 1.0, 1.0), NeighbourHop("B2", 1.0, 1.0))
    here.tell("B2", "B1", Broadcast(2, EMPTY, way))
    assert here.take_transcript() == []
    assert here.brokers["B1"].strategy.decisions.known == 0


def test_invented_brokers_do_not_fill_the_memory() -> None:
    here = stage()
    for number in range(MAX_KNOWN + 10):
        way = (NeighbourHop(f"X{number}", 1.0), NeighbourHop("B2", 1.0, 1.0))
        here.handle("B1", Received("B2", Broadcast(1, EMPTY, way)))
    assert here.brokers["B1"].strategy.decisions.known == MAX_KNOWN


BROKERS = st.sampled_from(["B0", "B1", "B2", "B3"])
HAPPENINGS = st.one_of(
    st.builds(
        Received,
        st.sampled_from(["B0", "B2"]),
        st.one_of(list(self_organising_messages(BROKERS).values())),
    ),
    st.just(TimerFired(TIMER)),
)


@pytest.mark.parametrize("heuristic", Heuristic)
@given(st.lists(HAPPENINGS, max_size=30))
@settings(max_examples=examples(50))
def test_no_message_of_a_neighbour_raises(heuristic: Heuristic, inputs: list[Input]) -> None:
    here = stage(
        (("B0", "B1"), ("B1", "B2"), ("B2", "B3")),
        {frozenset(pair): 1.0 for pair in combinations(["B0", "B1", "B2", "B3"], 2)},
        heuristic=heuristic,
    )
    for input in inputs:
        for effect in here.handle("B1", input):
            match effect:  # neighbours need not refuse forwarded messages
                case Send(_, Broadcast() as broadcast):
                    broadcast.check("B1")
                case Send(neighbour, ExchangeProposal() as proposal):
                    proposal.check("B1", neighbour)


def test_an_exchange_is_not_undone_without_a_change() -> None:
    """Interest as late brokers see it calls for the old link; other traffic brings it back."""

    def later(here: Stage, *, changed: bool) -> list[ProposalRecord]:
        cycle = ("B2", "B1", "B3")
        # B2 - B3 was exchanged for B1 - B3.
        exchange = LinkExchange(cycle=("B1", "B2", "B3"), remove=1, saving=1.0)
        traffic(here, "B2", ("B3",), 10)
        assert {row.outcome for row in interval(here)} == {"advised"}
        for name in cycle:
            decisions = here.brokers[name]._strategy.decisions  # type: ignore[attr-defined]
            decisions.done(exchange, here.now_us, [])
            if changed:
                decisions._steadiness.turn({"P": 1_000}, {}, here.now_us + 1)
        here.now_us += ON_ITS_WAY_US
        here.ask("B2", "P", publish(*range(20, 30)))
        here.settle()
        return interval(here)

    steady = later(stage(), changed=False)
    assert {row.outcome for row in steady} == {"refused"}
    assert {row.reason for row in steady} == {UNCHANGED}
    assert {row.outcome for row in later(stage(), changed=True)} == {"advised"}
    any_time = later(stage(returns_any_time=True), changed=False)
    assert {row.outcome for row in any_time} == {"advised"}
