"""Any message of self-organising brokers, sensible or not."""

from __future__ import annotations

from hypothesis import strategies as st

from shoal.broker.messages import Message
from shoal.model import Subscription
from shoal.overlays.self_organising.deciding.interest import InterestSummary
from shoal.overlays.self_organising.deciding.neighbourhood import NeighbourHop
from shoal.overlays.self_organising.deciding.planner import Cycle
from shoal.overlays.self_organising.deciding.trails import Trail
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    Doubt,
    Drained,
    ExchangeDecision,
    ExchangeForgotten,
    Greeting,
    Halt,
    Halted,
    LinkStanding,
)
from shoal.overlays.self_organising.links.cycles import CycleRound
from shoal.overlays.self_organising.links.healing import (
    AdoptionAccepted,
    AdoptionDeclined,
    Orphaned,
    Vouch,
    Vouched,
)
from shoal.overlays.self_organising.messages import Broadcast, ExchangeProposal
from shoal.overlays.self_organising.moves.path_messages import (
    PathMessage,
    Reserve,
    Reserved,
    Unreserve,
)
from shoal.overlays.tree.turning import TableTurn

COSTS = st.one_of(st.integers(0, 9).map(float), st.floats())
COUNTS = st.one_of(st.integers(0, 9), st.integers(-1, 2**63 - 1))
SUMMARIES = st.builds(
    InterestSummary,
    st.sampled_from([0, 0, 8, 16, 64, -1, 2**62]),
    st.integers(-1, 3),
    st.sampled_from([b"", b"1", b"12", b"12345678", bytes(8)]),
)


def exchange_messages(
    brokers: st.SearchStrategy[str],
    names: st.SearchStrategy[str],
    subscriptions: st.SearchStrategy[Subscription],
) -> dict[type[Message], st.SearchStrategy[Message]]:
    """Messages of a cycle's brokers for an exchange of links."""
    numbers = st.integers(-1, 40)
    keys = st.tuples(brokers, numbers)
    # Some that make sense at B1.
    path = st.sampled_from([("B0", "B1", "B2"), ("B2", "B1", "B0"), ("B3", "B0", "B1")])
    exchanges = st.builds(
        LinkExchange,
        cycle=st.one_of(path, st.lists(brokers, max_size=4).map(tuple)),
        remove=st.integers(-1, 3),
        saving=COSTS,
    )
    some, several = st.lists(names, max_size=3).map(tuple), st.lists(subscriptions, max_size=2)
    turns = st.builds(
        TableTurn,
        advertisements=some,
        known=some,
        far=several.map(tuple),
        near=several.map(tuple),
        moves=st.lists(st.tuples(names, numbers), max_size=2).map(tuple),
    )
    turned = st.one_of(st.none(), turns)
    verdicts = st.builds(ExchangeDecision, keys, exchanges, st.booleans(), numbers, numbers, names)
    standings = st.builds(LinkStanding, st.booleans(), numbers)
    return {
        Halt: st.builds(Halt, keys, exchanges),
        Halted: st.builds(Halted, keys, numbers, turned),
        Drained: st.builds(Drained, keys, numbers, turned),
        ExchangeDecision: verdicts,
        Doubt: st.builds(Doubt, keys),
        ExchangeForgotten: st.builds(ExchangeForgotten, keys),
        Orphaned: st.builds(Orphaned, brokers),
        Vouch: st.builds(Vouch, brokers, brokers),
        Vouched: st.builds(Vouched, brokers, brokers, st.booleans(), numbers),
        AdoptionAccepted: st.builds(AdoptionAccepted, brokers, numbers),
        AdoptionDeclined: st.builds(AdoptionDeclined, brokers),
        Greeting: st.builds(Greeting, standings, st.lists(verdicts, max_size=2).map(tuple)),
        CycleRound: st.builds(
            CycleRound, st.one_of(path, st.lists(brokers, max_size=4).map(tuple))
        ),
    }


def path_messages(
    clients: st.SearchStrategy[str], paths: st.SearchStrategy[tuple[str, ...]]
) -> dict[type[Message], st.SearchStrategy[Message]]:
    """Messages of brokers on a publisher's path before its move begins."""
    kinds: tuple[type[PathMessage], ...] = (Reserve, Reserved, Unreserve)
    return {kind: st.builds(kind, clients, paths) for kind in kinds}


def self_organising_messages(
    brokers: st.SearchStrategy[str],
) -> dict[type[Message], st.SearchStrategy[Message]]:
    """Messages for decisions about links."""
    hops = st.builds(NeighbourHop, brokers, COSTS, COSTS, st.one_of(st.none(), COUNTS))
    # Some that make sense at B1.
    path = st.sampled_from([("B0", "B1", "B2"), ("B2", "B1", "B0"), ("B3", "B0", "B1")])

    ids = st.sampled_from([b"", b"1", b"12345678", bytes(16)])
    trails = st.lists(st.builds(Trail, st.sampled_from([0, 1, 63, 64, -1]), ids, ids), max_size=3)

    def proposal(
        names: tuple[str, ...], numbers: list[float], is_full: bool, trails: list[Trail]
    ) -> ExchangeProposal:
        size = len(names)
        cycle = Cycle(
            brokers=names,
            processing=tuple(numbers[:size]),
            costs=tuple(numbers[1 : size + 1]),
            shared=tuple(range(size)),
        )
        vector = tuple(numbers[2 : size + 2])
        return ExchangeProposal(cycle, vector, is_full, trails=tuple(trails))

    names = st.one_of(path, st.lists(brokers, max_size=5).map(tuple))
    numbers = st.lists(COSTS, min_size=5, max_size=7)
    return {
        Broadcast: st.builds(
            Broadcast, st.integers(-1, 20), SUMMARIES, st.lists(hops, max_size=4).map(tuple)
        ),
        ExchangeProposal: st.builds(proposal, names, numbers, st.booleans(), trails),
    }
