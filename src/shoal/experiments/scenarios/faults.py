"""The tables of a scenario about links that are slow or fail, and brokers that crash."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated

import msgspec

from shoal.experiments.scenarios.sections import (
    PAGE,
    NotNegative,
    Positive,
    ScenarioError,
    ScenarioSection,
)
from shoal.model import BrokerId
from shoal.simulation.faults import LinkFaults
from shoal.simulation.limited_link import Bandwidths

# Above this, waiting for repeats takes longer than any run.
Loss = Annotated[float, msgspec.Meta(ge=0, le=0.9)]


class LinkBandwidth(ScenarioSection, frozen=True, kw_only=True):
    """The link between two brokers carries more or less than others, whenever there is one.

    left, right        these two brokers
    bytes_per_second   in each direction; 0: no bound
    """

    left: BrokerId
    right: BrokerId
    bytes_per_second: NotNegative


class Bandwidth(ScenarioSection, frozen=True, kw_only=True):
    """Bytes that links between brokers carry; links to clients have no bound.

    A message leaves its broker's output, waits until the link has sent all earlier ones, and takes
    as long as its frame has bytes. Example: at 1,000,000 bytes a second a message of 250 bytes
    takes 0.25 ms, and ten of them, sent at one time, arrive 0.25 ms apart.

    bytes_per_second   of each link, in each direction; 0: no bound
    links              links with a bandwidth of their own
    """

    bytes_per_second: NotNegative = 0
    links: tuple[LinkBandwidth, ...] = ()


class Crash(ScenarioSection, frozen=True, kw_only=True):
    """One broker is down, and loses its volatile state.

    broker    the broker
    at_us     from this time of the run on
    back_us   it is there again
    """

    broker: BrokerId
    at_us: NotNegative
    back_us: Positive

    def __post_init__(self) -> None:
        _check_interval(self.at_us, self.back_us)


class LinkDown(ScenarioSection, frozen=True, kw_only=True):
    """One link of the overlay carries nothing for a while.

    left, right   between these two brokers
    at_us         from this time of the run on
    back_us       it carries again
    """

    left: BrokerId
    right: BrokerId
    at_us: NotNegative
    back_us: Positive

    def __post_init__(self) -> None:
        _check_interval(self.at_us, self.back_us)


class LinkQuality(ScenarioSection, frozen=True, kw_only=True):
    """One link of the overlay is better or worse than the others, in both directions.

    left, right       between these two brokers
    loss              probability that a message is lost
    delay_jitter_us   each message takes up to this much longer
    """

    left: BrokerId
    right: BrokerId
    loss: Loss = 0.0
    delay_jitter_us: NotNegative = 0


class Faults(ScenarioSection, frozen=True, kw_only=True):
    """Fault injection.

    link_loss              probability that a message on an overlay link is lost
    link_delay_jitter_us   each message takes up to this much longer; more than the spacing of
                           messages reorders them
    crashes                brokers that are down for a while
    link_downs             links that carry nothing for a while
    links                  links with a loss and jitter of their own
    """

    link_loss: Loss = 0.0
    link_delay_jitter_us: NotNegative = 0
    crashes: tuple[Crash, ...] = ()
    link_downs: tuple[LinkDown, ...] = ()
    links: tuple[LinkQuality, ...] = ()


def check_faults(
    faults: Faults, brokers: Collection[BrokerId], links: Iterable[tuple[BrokerId, BrokerId]]
) -> None:
    """ScenarioError when a fault is to happen to a broker or link that is not there."""
    for number, crash in enumerate(faults.crashes):
        if crash.broker not in brokers:
            raise ScenarioError(
                f"faults.crashes[{number}].broker: no broker {crash.broker!r} ({PAGE})"
            )
    joined = {frozenset(link) for link in links}
    named = {
        "link_downs": [(each.left, each.right) for each in faults.link_downs],
        "links": [(each.left, each.right) for each in faults.links],
    }
    for key, pairs in named.items():
        for number, (left, right) in enumerate(pairs):
            if frozenset((left, right)) not in joined:
                raise ScenarioError(
                    f"faults.{key}[{number}]: no link between {left!r} and {right!r} ({PAGE})"
                )


def link_faults(faults: Faults) -> dict[frozenset[BrokerId], LinkFaults]:
    """The loss and jitter of links that have their own."""
    return {
        frozenset((each.left, each.right)): LinkFaults(
            loss=each.loss, jitter_us=each.delay_jitter_us
        )
        for each in faults.links
    }


def bandwidths(section: Bandwidth, brokers: Collection[BrokerId]) -> Bandwidths:
    """The bandwidths by link; ScenarioError for a broker that is not there, or a pair twice."""
    own: dict[frozenset[BrokerId], int] = {}
    for number, each in enumerate(section.links):
        key, pair = f"bandwidth.links[{number}]", frozenset((each.left, each.right))
        for end, broker in (("left", each.left), ("right", each.right)):
            if broker not in brokers:
                raise ScenarioError(f"{key}.{end}: no broker {broker!r} ({PAGE})")
        if len(pair) < 2:
            raise ScenarioError(f"{key}: {each.left!r} has no link to itself ({PAGE})")
        if pair in own:
            raise ScenarioError(
                f"{key}: {each.left!r} and {each.right!r} are listed twice ({PAGE})"
            )
        own[pair] = each.bytes_per_second
    return Bandwidths(bytes_per_second=section.bytes_per_second, own=own)


def _check_interval(at_us: int, back_us: int) -> None:
    if back_us <= at_us:
        raise ValueError(f"back_us: {back_us} is not after at_us = {at_us}")
