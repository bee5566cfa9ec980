"""A plan for topic trees in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.overlays.dynatops.planning.advising.advice import (
    AdviceState,
    BrokerSwap,
    PlacementAdvice,
)
from shoal.overlays.dynatops.planning.advising.hybrid import Outlook, clusters


def in_words(advice: PlacementAdvice) -> Iterator[str]:
    """The lines that say it."""
    yield f"over {advice.hours:g} h; gains and prices in messages"
    yield from _moves(advice)
    yield from _swaps(advice)
    if advice.moves or advice.swaps:
        yield f"in all: saves {_number(advice.gain)}, costs {_number(advice.price)}"
        if advice.swaps:
            yield (
                f"  every broker hears of a swap, once: {_number(advice.fixed)}; the paper's bound "
                f"for all of them is {_number(advice.bound)}"
            )
        yield f"  {'':<43} {'before':>8} {'after':>8}"
        before, after = _figures(advice.before), _figures(advice.after)
        names = (
            "messages of a publication",
            "  of them to brokers that only relay",
            "brokers that subscribe to a topic",
            f"delay of a delivery, {advice.delay_unit}",
            "most subscriptions at a broker, by the mean",
        )
        for name, old, new in zip(names, before, after, strict=True):
            yield f"  {name:<43} {old:>8} {new:>8}"
    if advice.clusters:
        yield "gateways on the ring then, each with the brokers behind it:"
        yield from _clusters(advice.clusters)
    if advice.gateways is not None:
        yield from _gateways(advice.gateways)
    for warning in advice.warnings:
        yield f"warning: {warning}"


def as_orders(advice: PlacementAdvice, network: Path) -> str:
    """The command that has brokers swap so, and stay."""
    swaps = " ".join(f"--swap {','.join(swap.brokers)}" for swap in advice.swaps)
    return f"shoal rearrange {network} --stop {swaps}"


def _clusters(clusters: Iterable[Sequence[str]]) -> Iterator[str]:
    for first, *others in clusters:
        yield f"  {first} for {', '.join(others) or 'itself'}"


def ring_in_words(said: Mapping[str, Any], manager: str) -> Iterator[str]:
    """Yield the places in a broker's ring as text.

    >>> said = {"version": 3, "members": ["B2", "B1", "B3"], "pinned": ["B3"], "is_held": True}
    >>> print("\\n".join(ring_in_words(said, "B1")))
    places in the order of positions (version 3, B1 decides):
      B2, B1, B3 (pinned)
    all stay where they are until `--go`
    """
    pinned, per_gateway = said["pinned"], said.get("per_gateway", 1)
    names = [f"{each} (pinned)" if each in pinned else each for each in said["members"]]
    decides = f"version {said['version']}, {manager} decides"
    if per_gateway > 1:
        yield f"gateways on the ring, each with the brokers behind it ({decides}):"
        yield from _clusters(clusters(names, per_gateway))
    else:
        yield f"places in the order of positions ({decides}):"
        yield f"  {', '.join(names)}"
    for region in said.get("regions", ()):
        yield f"these swap with each other only: {', '.join(region)}"
    if said.get("is_held"):
        yield "all stay where they are until `--go`"
    elif said.get("is_planning"):
        yield "they change places by themselves if that pays"
    else:
        yield "no broker changes places without an order, as reconfigure_us is not set"


def _gateways(gateways: Outlook) -> Iterator[str]:
    count = len(gateways.clusters)
    yield f"if only gateways of {count} clusters stood on the ring (the system `hybrid`):"
    yield from _clusters(gateways.clusters)
    yield (
        f"  messages of a publication {gateways.messages:.2f}, {gateways.relays:.2f} of them to "
        f"brokers that only relay; the busiest broker handles {gateways.busiest:.2f}, without "
        f"gateways {gateways.busiest_without:.2f}"
    )


def _moves(advice: PlacementAdvice) -> Iterator[str]:
    if not advice.moves:
        yield "no user should move"
        return
    yield f"users that should move: {len(advice.moves)}"
    for move in advice.moves:
        yield (
            f"  {move.user}: {move.source} -> {move.target}, saves {_number(move.gain)}, "
            f"costs {_number(move.price)}: {move.why}"
        )


def _swaps(advice: PlacementAdvice) -> Iterator[str]:
    if not advice.swaps:
        yield "no brokers should change places"
    else:
        yield f"swaps of brokers' places, in this order: {len(advice.swaps)}"
    for swap in advice.swaps:
        (one, other), (here, there) = swap.brokers, swap.positions
        yield (
            f"  {one} (at {here}) <-> {other} (at {there}), saves {_number(swap.gain)} "
            f"({_parts(swap)}), costs {_number(swap.price)}"
        )
    if advice.pays_from is None:
        yield "  none that is allowed makes anything better"
    else:
        yield f"  some pay from {advice.pays_from:.3g} times these publications on"


def _parts(swap: BrokerSwap) -> str:
    """Return the parts of a swap's gain, without those of weight 0."""
    delay = swap.gain - swap.relays - swap.roots
    parts = {"relays": swap.relays, "roots that want it": swap.roots, "delay": delay}
    return ", ".join(f"{name} {_number(each)}" for name, each in parts.items() if each)


def _figures(state: AdviceState) -> list[str]:
    figures = (state.messages, state.relays, state.brokers, state.delay, state.load)
    return [f"{each:.2f}" for each in figures]


def _number(value: float) -> str:
    """
    >>> _number(1234.5), _number(0.25), _number(-3.0)
    ('1,234', '0.25', '-3')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
