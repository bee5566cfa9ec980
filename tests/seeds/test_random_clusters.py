"""Random clusters with joins, leaves and deaths: every publication reaches exactly its subscribers.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from shoal.overlays.bluedove.dispatching.home import SubscriberEdge
from shoal.overlays.bluedove.dispatching.lines import DispatchLines, Pending
from shoal.overlays.bluedove.dispatching.outbox import DispatchOutbox
from shoal.overlays.bluedove.parameters import DeliveryOrder
from shoal.overlays.bluedove.records import DeathRecord, ServedRecord
from shoal.overlays.bluedove.serving.handover import Handover
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.networks.random_network import SECOND_US
from tests.seeds.random_cluster import RandomCluster, Trouble

QUICK = range(2)
SOAK = range(1_000)


def run(seeds: Iterable[int], trouble: Trouble, *, lossy: bool = False) -> tuple[int, int, int]:
    """Run and judge: required deliveries, segments handed over, matchers lost."""
    required = served = dead = 0
    for seed in chosen(seeds):
        cluster = RandomCluster(seed, trouble, lossy=lossy)
        problems = cluster.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems[:20])
        required += cluster.required
        records = cluster.world.trace.records
        served += sum(isinstance(row, ServedRecord) and row.at_us > 1_000_000 for row in records)
        dead += sum(isinstance(row, DeathRecord) for row in records)
    return required, served, dead


def test_nothing_is_lost_while_matchers_join() -> None:
    required, served, dead = run(QUICK, Trouble.NONE)
    assert (required and served) or CHOSEN
    assert dead == 0


def test_nothing_is_lost_while_matchers_join_and_leave() -> None:
    required, served, dead = run(QUICK, Trouble.LEAVES)
    assert (required and served) or CHOSEN
    assert dead == 0


def test_nothing_is_lost_while_matchers_die() -> None:
    required, served, dead = run(QUICK, Trouble.CRASHES)
    assert (required and served and dead) or CHOSEN


@pytest.mark.parametrize("trouble", list(Trouble))
def test_nothing_is_lost_over_links_that_lose_and_reorder(trouble: Trouble) -> None:
    required, _, _ = run(range(1), trouble, lossy=True)
    assert required or CHOSEN


def restarting_dispatcher(seed: int, *, both: bool = False) -> list[str]:
    """Only publications at that dispatcher meanwhile are lost; nothing arrives twice."""
    cluster = RandomCluster(seed, Trouble.NONE, both=both)
    # Publications that wait for the dispatcher are matched again, with later subscriptions.
    cluster.trouble = Trouble.CRASHES
    random, world = Random(seed), cluster.world
    name = random.choice(cluster.dispatchers)
    at_us = random.randint(10, 25) * SECOND_US
    back_us = at_us + random.choice([1, SECOND_US // 2, 4 * SECOND_US])
    world.crash(at_us, name)
    world.restart(back_us, name)
    expected = (
        "lost: ",
        "refused: ",
    )  # a client may withdraw a subscription that is not known again yet
    problems = [row for row in cluster.run() if not row.startswith(expected)]
    # A subscription is stored when all places are served: until then the dead must be noticed.
    settled_us = back_us + (Trouble.CRASHES.value if both else 8 * SECOND_US)
    since = {row.key: row.published_us for row in cluster.publications}
    lost = [key for key in cluster.judge().lost if since[key[0]] > settled_us]
    return problems + [f"lost long after: {key}" for key in lost]


@pytest.mark.parametrize("both", [False, True])
def test_restarted_dispatchers_lose_only_their_publications(both: bool) -> None:
    for seed in chosen(range(2)):
        problems = restarting_dispatcher(seed, both=both)
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems[:20])


@pytest.mark.soak
@pytest.mark.parametrize("both", [False, True])
def test_a_thousand_restarted_dispatchers_lose_only_their_publications(both: bool) -> None:
    for seed in chosen(SOAK):
        problems = restarting_dispatcher(seed, both=both)
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems[:20])


@pytest.mark.soak
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("trouble", list(Trouble))
def test_a_thousand_clusters_lose_nothing(trouble: Trouble, lossy: bool) -> None:
    required, _, _ = run(SOAK, trouble, lossy=lossy)
    assert required > 1_000_000 or CHOSEN


# --- mutants that the judges must find ----------------------------------------------------------


def problems(trouble: Trouble, count: int = 3, order: DeliveryOrder | None = None) -> str:
    clusters = [RandomCluster(seed, trouble, order=order) for seed in range(count)]
    return "\n".join(row for cluster in clusters for row in cluster.run())


def test_the_judges_notice_publications_out_of_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_once(self: DispatchLines, publisher: str, now_us: int) -> list[Pending]:
        found = [each for each in self._lines[publisher] if each.result is not None]
        for each in found:
            self._lines[publisher].remove(each)
        return found

    monkeypatch.setattr(DispatchLines, "leave", at_once)
    assert "out of order: " in problems(Trouble.NONE, 2, DeliveryOrder.PUBLISHER)


@pytest.mark.soak
def test_the_judges_notice_publications_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the paper: publications at a matcher that dies are lost."""
    monkeypatch.setattr(DispatchOutbox, "link_down", lambda self, broker, now_us, out: None)
    monkeypatch.setattr(DispatchOutbox, "tick", lambda self, now_us, out: False)
    assert "lost: " in problems(Trouble.CRASHES)


@pytest.mark.soak
def test_the_judges_notice_subscriptions_that_are_not_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Handover, "_send_rows", _send_no_rows)
    assert "lost: " in problems(Trouble.LEAVES)


def _send_no_rows(self, to, dimension, segment, rows, now_us, out):  # type: ignore[no-untyped-def]
    from shoal.overlays.bluedove.messages import SubscriptionRows

    self._node.send(to, SubscriptionRows(dimension, segment, (), True), now_us, out)


def test_the_judges_notice_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    matched = SubscriberEdge.matched

    def forgetful(self, found, now_us, out):  # type: ignore[no-untyped-def]
        self._delivered.clear()
        matched(self, [*found, *found], now_us, out)
        self._delivered.clear()

    monkeypatch.setattr(SubscriberEdge, "matched", forgetful)
    monkeypatch.setattr("shoal.overlays.bluedove.dispatching.home.MAX_REMEMBERED", 0)
    assert "twice: " in problems(Trouble.NONE, 1)
