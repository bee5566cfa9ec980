"""Events of a compiled run in the order of time, and its state at first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from shoal.experiments.self_organising.modelling.compiled.arrays import (
    CODES,
    UNKNOWN,
    Events,
    ExchangeArrays,
    Knowledge,
    PairArrays,
    Prices,
    ProposalArrays,
    Rules,
    RunArrays,
    Swaps,
    Totals,
    TreeArrays,
    TypeArrays,
)
from shoal.experiments.self_organising.modelling.compiled.broadcasts import propose
from shoal.experiments.self_organising.modelling.compiled.exchanges import consult
from shoal.experiments.self_organising.modelling.compiled.notifications import recount, settle
from shoal.experiments.self_organising.modelling.delivery import DeliveryTree
from shoal.experiments.self_organising.modelling.model import COUNTS, KINDS, LinkSwap, ModelOutcome
from shoal.experiments.self_organising.modelling.setting import WINDOW, SelfOrganisingSetting
from shoal.experiments.self_organising.modelling.sharing import publication_times
from shoal.experiments.self_organising.modelling.workload import ModelWorkload
from shoal.matching.compiled.kernels.compiler import kernel
from shoal.overlays.self_organising.parameters import Heuristic

_MOVE, _CHANGE, _WINDOW, _BROADCAST = range(4)


def run_compiled(
    setting: SelfOrganisingSetting,
    workload: ModelWorkload,
    links: Iterable[tuple[int, int]],
    broadcasts_at: Sequence[Sequence[float]],
) -> ModelOutcome:
    """`SelfOrganisingModel.run`; ValueError if interest of three is to be counted."""
    if setting.counted:
        raise ValueError("counted: only SelfOrganisingModel counts the interest of three")
    heuristic = None if setting.what == "static" else Heuristic(setting.what)
    run = RunArrays(
        rules=Rules(
            heuristic=UNKNOWN if heuristic is None else CODES[heuristic],
            hops=setting.hops,
            is_passing=setting.passing,
            least_gain=setting.least_gain,
        ),
        tree=_tree(DeliveryTree(setting.brokers, links)),
        types=_types(setting, workload),
        pairs=_pairs(setting),
        knowledge=_knowledge(setting.brokers),
        proposals=_proposals(setting),
        exchange=_exchange(setting),
        totals=Totals(
            sums=np.zeros(len(KINDS)),
            windows=np.zeros((len(KINDS), setting.ticks // WINDOW)),
            counts=np.zeros(len(COUNTS), np.int64),
        ),
    )
    eras = Prices(
        processing=np.array([each.brokers for each in workload.costs], np.float64),
        links=np.array([each.links for each in workload.costs], np.float64),
    )
    swaps = _run(_events(setting, workload, broadcasts_at if heuristic else ()), eras, run)
    at, sizes, removed, cycles = (each.tolist() for each in swaps)
    return ModelOutcome(
        {kind: run.totals.windows[number].tolist() for number, kind in enumerate(KINDS)},
        dict(zip(COUNTS, run.totals.counts.tolist(), strict=True)),
        [
            LinkSwap(time, tuple(cycle[:size]), remove)
            for time, size, remove, cycle in zip(at, sizes, removed, cycles, strict=True)
        ],
        [(above, broker) for broker, above in enumerate(run.tree.above.tolist()) if above >= 0],
    )


def _tree(tree: DeliveryTree) -> TreeArrays:
    first, neighbours = tree.rows
    above = np.full(len(first) - 1, UNKNOWN, np.int64)
    for broker, neighbour in tree.links:
        above[neighbour] = broker
    return TreeArrays(first, neighbours, above)


def _types(setting: SelfOrganisingSetting, workload: ModelWorkload) -> TypeArrays:
    types, brokers = setting.types, setting.brokers
    members = np.zeros((types, brokers), np.bool_)
    for type, inside in enumerate(workload.members):
        members[type, list(inside)] = True
    times, begins = publication_times(workload.publications)
    return TypeArrays(
        times=times,
        begins=begins,
        published=np.zeros(types, np.int64),
        settled=np.zeros(types, np.int64),
        units=np.zeros(types),
        members=members,
        passed=np.zeros((types, brokers), np.bool_),
    )


def _pairs(setting: SelfOrganisingSetting) -> PairArrays:
    types, brokers = setting.types, setting.brokers
    return PairArrays(
        is_wanted=np.zeros((types, brokers), np.int64),
        counted=np.zeros(types, np.int64),
        sums=np.zeros((brokers, brokers), np.int64),
        told=np.zeros((brokers, brokers), np.int64),
    )


def _knowledge(brokers: int) -> Knowledge:
    return Knowledge(
        shared=np.full((brokers, brokers), UNKNOWN, np.int64),
        is_fresh=np.zeros((brokers, brokers), np.bool_),
        sums=np.zeros(brokers, np.int64),
        known=np.zeros(brokers, np.int64),
        proposed=np.full((brokers, brokers), -np.inf),
        reached=np.zeros(brokers, np.int64),
        before=np.zeros(brokers, np.int64),
        over=np.zeros(brokers, np.int64),
        pays=np.zeros(brokers, np.bool_),
    )


def _proposals(setting: SelfOrganisingSetting) -> ProposalArrays:
    brokers, places = setting.brokers, setting.hops + 1
    return ProposalArrays(
        size=np.zeros(brokers, np.int64),
        brokers=np.zeros((brokers, places), np.int64),
        costs=np.zeros((brokers, places)),
        shared=np.zeros((brokers, places)),
        judged=np.zeros((brokers, places, places)),
        # By the other heuristics each broker can judge, and adds nothing.
        is_judged=np.ones((brokers, places), np.bool_),
        vector=np.zeros((brokers, places)),
        time=np.zeros(brokers, np.int64),
        turn=np.zeros(brokers, np.int64),
        place=np.zeros(brokers, np.int64),
        is_going=np.zeros(brokers, np.bool_),
    )


def _exchange(setting: SelfOrganisingSetting) -> ExchangeArrays:
    places = setting.hops + 1
    return ExchangeArrays(
        state=np.zeros(5, np.int64),
        brokers=np.zeros(places, np.int64),
        place=np.full(setting.brokers, UNKNOWN, np.int64),
        since=np.zeros(places, np.int64),
        until=np.zeros(places, np.int64),
    )


def _events(
    setting: SelfOrganisingSetting,
    workload: ModelWorkload,
    broadcasts_at: Sequence[Sequence[float]],
) -> Events:
    windows = range(1, setting.ticks // WINDOW + 1)
    changes = enumerate(setting.changes_at, start=1)
    rows = [
        *((move.at, _MOVE, move.type, move.old, move.new) for move in workload.moves),
        *((at, _CHANGE, number, 0, 0) for number, at in changes if at < setting.ticks),
        *((window * WINDOW, _WINDOW, window - 1, 0, 0) for window in windows),
        *(
            (at, _BROADCAST, broker, 0, 0)
            for broker, times in enumerate(broadcasts_at)
            for at in times
        ),
    ]
    rows.sort(key=lambda row: row[0])
    at, *others = np.array(rows, np.float64).reshape(-1, 5).T
    return Events(at.copy(), *(each.astype(np.int64) for each in others))


@kernel
def _run(events: Events, eras: Prices, run: RunArrays) -> Swaps:
    """All events change `run`; returns the exchanges."""
    places = run.proposals.brokers.shape[1]
    swaps = Swaps(
        np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, places), np.int64)
    )
    done = 0
    prices = Prices(eras.processing[0], eras.links[0])
    for type in range(len(run.types.units)):
        recount(0.0, type, prices, run.rules, run.tree, run.types, run.pairs, run.totals)
    for event in range(len(events.at)):
        at, kind, first = events.at[event], events.kind[event], events.first[event]
        if kind == _MOVE:
            run.types.members[first, events.second[event]] = False
            run.types.members[first, events.third[event]] = True
            recount(at, first, prices, run.rules, run.tree, run.types, run.pairs, run.totals)
        elif kind == _CHANGE:
            prices = Prices(eras.processing[first], eras.links[first])
            for type in range(len(run.types.units)):
                recount(at, type, prices, run.rules, run.tree, run.types, run.pairs, run.totals)
        elif kind == _WINDOW:
            for type in range(len(run.types.units)):
                settle(at, type, run.types, run.totals)
            run.totals.windows[:, first] = run.totals.sums
            run.totals.sums[:] = 0.0
        else:
            count = propose(at, first, prices, run)
            # A broadcast's proposals end in at most one exchange each.
            if done + count > len(swaps.at):
                swaps = _longer(swaps, max(1_000, done + count))
            done = consult(at, count, done, prices, swaps, run)
    return Swaps(swaps.at[:done], swaps.size[:done], swaps.remove[:done], swaps.cycle[:done])


@kernel
def _longer(swaps: Swaps, more: int) -> Swaps:
    room = np.zeros(more, np.int64)
    return Swaps(
        np.concatenate((swaps.at, np.zeros(more))),
        np.concatenate((swaps.size, room)),
        np.concatenate((swaps.remove, room)),
        np.concatenate((swaps.cycle, np.zeros((more, swaps.cycle.shape[1]), np.int64))),
    )
