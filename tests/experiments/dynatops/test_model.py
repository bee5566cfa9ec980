"""The slot model against a plain count of messages, hour by hour."""

from __future__ import annotations

import itertools
from collections import Counter

import msgspec
import numpy as np
import pytest

from shoal.experiments.dynatops.crowds.users import StudyCrowd, draw_crowd
from shoal.experiments.dynatops.model import DynatopsModel
from shoal.experiments.dynatops.setting import DynatopsSetting, Own, What
from shoal.overlays.dynatops.planning.placement import HashRing, Served, best_broker
from shoal.overlays.dynatops.structures.structure import route

BY_CHANCE = DynatopsSetting(what="bayeux", seed=3, users=300, hours=6, brokers=20, topics=40)
BY_PLACE = msgspec.structs.replace(BY_CHANCE, users_are="location", columns=8, rows=4)


class PlainCount:
    """Users' topics and places as sets; messages as paths."""

    def __init__(self, model: DynatopsModel, crowd: StudyCrowd) -> None:
        self.model = model
        self.broker_of = list(model.broker_of)
        self.wanted = list(crowd.wanted)
        self.cells = list(crowd.cells)

    def topics(self) -> list[set[int]]:
        found: list[set[int]] = [set() for _ in range(len(self.model.users))]
        for user, broker in enumerate(self.broker_of):
            found[broker] |= self.wanted[user]
        return found

    def messages(self, topic: int) -> int:
        return len(self._tree(topic)[1])

    def waiting(self, topic: int) -> float:
        ways, _ = self._tree(topic)
        return sum(
            self._apart(ways[broker])
            for user, broker in enumerate(self.broker_of)
            if topic in self.wanted[user]
        )

    def reaching(self, topic: int) -> float:
        """From users' brokers to them: a cell is a broker, or in GeoPS in the grid's cell."""
        geography = self.model._geography
        if geography is None:
            return 0.0
        return sum(
            geography.to_cells[self.cells[user], broker]
            for user, broker in enumerate(self.broker_of)
            if topic in self.wanted[user]
        )

    def joining(self, broker: int, topic: int) -> int:
        """Up to the root, and down the tree."""
        position, root = self.model.mapping[broker], self.model._roots(topic)
        structure = self.model._structure
        return len(route(structure, position, root)) + len(route(structure, root, position)) - 2

    def _tree(self, topic: int) -> tuple[dict[int, list[int]], set[tuple[int, int]]]:
        root, structure = self.model._roots(topic), self.model._structure
        ways = {
            broker: route(structure, root, self.model.mapping[broker])
            for broker, topics in enumerate(self.topics())
            if topic in topics
        }
        hops = {hop for way in ways.values() for hop in itertools.pairwise(way)}
        return ways, hops

    def _apart(self, way: list[int]) -> float:
        hops = list(itertools.pairwise(way))
        geography = self.model._geography
        if geography is None:
            return len(hops)
        at = {position: broker for broker, position in enumerate(self.model.mapping)}
        return sum(geography.round_trips[at[one], at[other]] for one, other in hops)


@pytest.mark.parametrize(
    "what", ["bayeux", "bayeux-location", "bayeux-near", "geops", "chash", "up", "bnr"]
)
@pytest.mark.parametrize("setting", [BY_CHANCE, BY_PLACE])
def test_each_hours_figures_equal_a_plain_count(setting: DynatopsSetting, what: What) -> None:
    if setting is BY_CHANCE and what in ("bayeux-location", "bayeux-near", "geops"):
        pytest.skip("has no places")
    setting = msgspec.structs.replace(setting, what=what, free_hours=100)
    crowd = draw_crowd(setting)
    model = DynatopsModel(setting, crowd)
    plain = PlainCount(model, crowd)
    told = 0.0
    if what == "up":
        members = Counter(model._rules.cluster_of.tolist())
        told = sum(count * (count - 1) for count in members.values())
    for changes in crowd.slots:
        before = plain.topics()
        model._crowd = crowd._replace(slots=[changes])
        mapping = list(model.mapping)
        (slot,) = model.run()
        model_mapping, model.mapping = model.mapping, mapping
        for change in changes:
            plain.wanted[change.user] = change.wanted
            plain.cells[change.user] = change.cell
        plain.broker_of = list(model.broker_of)
        after = plain.topics()
        topics = range(model.users.shape[1])
        assert slot.messages == setting.rate * sum(map(plain.messages, topics))
        assert slot.waiting == pytest.approx(setting.rate * sum(map(plain.waiting, topics)))
        assert slot.reaching == pytest.approx(setting.rate * sum(map(plain.reaching, topics)))
        assert slot.deliveries == setting.rate * sum(map(len, plain.wanted))
        turned = [
            (broker, topic)
            for broker, (one, other) in enumerate(zip(before, after, strict=True))
            for topic in one ^ other
        ]
        assert slot.changes == len(turned)
        assert slot.subscribing == told + sum(plain.joining(*each) for each in turned)
        model.mapping = model_mapping
        assert model.loads.tolist() == [
            sum(len(plain.wanted[user]) for user, at in enumerate(plain.broker_of) if at == broker)
            for broker in range(len(model.users))
        ]


def test_users_brokers_are_as_far_as_their_cells() -> None:
    """Users with a cell's broker are near it; drawn ones and those placed by hash are anywhere."""
    crowd = draw_crowd(msgspec.structs.replace(BY_PLACE, hours=48))
    legs = {}
    for what in ("bayeux-location", "geops", "bayeux", "chash"):
        model = DynatopsModel(msgspec.structs.replace(BY_PLACE, what=what), crowd)  # type: ignore[arg-type]
        geography = model._geography
        assert geography is not None
        if what != "geops":
            assert geography.to_cells.tolist() == geography.round_trips.tolist()
        slots = model.run()
        legs[what] = slots[0].reaching / slots[0].deliveries, slots[-1].reaching
    assert legs["bayeux-location"] == pytest.approx((0.0, 0.0))
    assert 0 < legs["geops"][0] < 0.3
    assert 0.8 < legs["bayeux"][0] < 1.2  # drawn, and stays
    assert 0.8 < legs["chash"][0] < 1.2


@pytest.mark.parametrize("own", ["last", "now", "others"])
def test_users_are_placed_by_brokers_last_reports(own: Own) -> None:
    """Of all, or of all but the user's own broker, whose own figures are current."""
    setting = msgspec.structs.replace(BY_CHANCE, what="up", cluster=5, own=own)
    crowd = draw_crowd(setting)
    model = DynatopsModel(setting, crowd)
    served = [
        Served(frozenset(np.flatnonzero(row).tolist()), int(row.sum())) for row in model.users
    ]
    wanted = list(crowd.wanted)
    went = 0
    for change in crowd.slots[0]:
        present = model.broker_of[change.user]
        wanted[change.user] = change.wanted
        at_present = [
            topics
            for user, topics in enumerate(wanted)
            if model.broker_of[user] == present and (own == "now" or user != change.user)
        ]
        start = present - present % 5
        visible = {broker: served[broker] for broker in range(start, start + 5)}
        if own != "last":
            here = Served(frozenset().union(*at_present), sum(map(len, at_present)))
            visible[present] = here
        expected = best_broker(change.wanted, visible, setting.load_weight, present)
        handovers, session_transfer = model._change([change])
        assert model.broker_of[change.user] == expected
        assert (handovers, session_transfer) == (int(expected != present), 0)
        went += handovers
    assert went


@pytest.mark.parametrize("setting", [BY_CHANCE, BY_PLACE])
def test_users_by_hash_stay_wherever_they_go(setting: DynatopsSetting) -> None:
    setting = msgspec.structs.replace(setting, what="chash")
    crowd = draw_crowd(setting)
    model = DynatopsModel(setting, crowd)
    ring = HashRing(range(len(model.users)))
    expected = [ring.broker_of(f"user/{user}") for user in range(setting.users)]
    assert model.broker_of.tolist() == expected
    assert not any(slot.handovers for slot in model.run())
    assert model.broker_of.tolist() == expected


def test_a_user_in_another_cell_roams() -> None:
    setting = msgspec.structs.replace(BY_PLACE, what="bayeux-location", hours=12)
    crowd = draw_crowd(setting)
    slots = DynatopsModel(setting, crowd).run()
    assert sum(slot.session_transfer for slot in slots) == sum(slot.handovers for slot in slots) > 0
    cells = list(crowd.cells)
    moved = 0
    for changes in crowd.slots:
        for user, _, cell in changes:
            moved += cell != cells[user]
            cells[user] = cell
    assert sum(slot.session_transfer for slot in slots) == moved


def test_brokers_swap_places_when_it_pays() -> None:
    setting = msgspec.structs.replace(BY_CHANCE, what="bnr", rate=1_000.0, free_hours=2)
    crowd = draw_crowd(setting)
    slots = DynatopsModel(setting, crowd).run()
    assert sum(slot.moved for slot in slots) > 0
    assert all(slot.moved == 0 for slot in slots[1::2])
    still = DynatopsModel(msgspec.structs.replace(setting, rate=0.001), crowd).run()
    assert sum(slot.moved for slot in still) == 0
    per_event = [
        sum(s.messages for s in each) / sum(s.events for s in each) for each in (slots, still)
    ]
    assert per_event[0] < per_event[1]


def test_swaps_at_real_prices_save_more() -> None:
    """They cost the messages they send, which are fewer than in Eq. 7."""
    setting = msgspec.structs.replace(BY_CHANCE, what="bnr", rate=100.0, free_hours=2)
    crowd = draw_crowd(setting)
    papers = DynatopsModel(setting, crowd).run()
    ours = DynatopsModel(msgspec.structs.replace(setting, planner="swaps"), crowd).run()
    assert sum(slot.moved for slot in ours) > sum(slot.moved for slot in papers)
    assert sum(slot.messages for slot in ours) < sum(slot.messages for slot in papers)
    for slot in ours:
        assert (slot.reconfiguring > 0) == (slot.moved > 0)


def test_links_of_the_topic_connected_overlay_are_counted() -> None:
    setting = msgspec.structs.replace(BY_CHANCE, what="tco")
    crowd = draw_crowd(setting)
    model = DynatopsModel(setting, crowd)
    slots = model.run()
    assert sum(slot.reconfiguring for slot in slots) > 0
    # No relay: a publication goes to each subscribing broker but the first.
    members = (model.users > 0).sum(axis=0)
    assert model._cost(np.full(40, 1.0)).messages == np.maximum(members - 1, 0).sum()
