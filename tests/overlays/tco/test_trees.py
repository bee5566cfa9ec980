"""Trees reach all subscribing brokers, whichever links are up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.overlays.tco.trees import tree_of

BROKERS = ("A", "B", "C", "D", "E")
SETS = st.sets(st.sampled_from(BROKERS))


@given(
    homes=st.sets(st.sampled_from(BROKERS[1:]), min_size=1),
    others=SETS,
    pairs=st.sets(st.tuples(st.sampled_from(BROKERS), st.sampled_from(BROKERS)), max_size=3),
    own=st.sets(st.sampled_from(BROKERS), max_size=1),
    hub=st.sampled_from(BROKERS),
)
def test_each_subscribing_broker_is_reached_once(
    homes: set[str], others: set[str], pairs: set[tuple[str, str]], own: set[str], hub: str
) -> None:
    """Also a hub that subscribes and is no neighbour: its publications must not circulate."""
    links: dict[str, set[str]] = {}
    for one, other in pairs:
        if one != other:
            links.setdefault(one, set()).add(other)
            links.setdefault(other, set()).add(one)
    tree = tree_of("A", homes, homes | others, links, own - {"A"}, hub)
    stops = [broker for broker, _, _ in tree]
    assert {broker for broker, _, is_home in tree if is_home} == homes
    assert len(set(stops)) == len(stops)
    assert "A" not in stops
    assert all(-1 <= before < at for at, (_, before, _) in enumerate(tree))
