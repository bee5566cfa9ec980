"""`shoal plan dynatops`, and its siblings': which users should move, and which brokers swap."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import read_caller
from shoal.cli.systems.dynatops.places import RINGS
from shoal.cli.systems.kinds import MeasuredSystem, Planning
from shoal.overlays.dynatops.parameters import PER_GATEWAY

if TYPE_CHECKING:
    from shoal.model import BrokerId
    from shoal.overlays.dynatops.planning.advising.survey import UserSurvey


class TopicOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Constraints of moves and swaps."""

    network: Annotated[
        Path | None,
        msgspec.Meta(
            description="A running network, for places, interests and its manager's counts, "
            "instead of --users and --brokers.",
            title="NETWORK.toml",
        ),
    ] = None
    users: Annotated[
        Path | None,
        msgspec.Meta(description="Users' brokers and topics, as CSV: user,broker,topic."),
    ] = None
    brokers: Annotated[
        Path | None,
        msgspec.Meta(
            description="All brokers, as CSV: broker, and if need be position, region (none leaves "
            "it), room (subscriptions it can hold), capacity (messages it handles a second)."
        ),
    ] = None
    hours: Annotated[
        float, msgspec.Meta(ge=0.01, le=100_000, description="In how many hours it must pay.")
    ] = 10.0
    most_swaps: Annotated[
        int | None, msgspec.Meta(ge=0, description="So many swaps of brokers at most.")
    ] = None
    most_moves: Annotated[
        int | None, msgspec.Meta(ge=0, description="So many moves of users at most.")
    ] = None
    least_gain: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=1_000_000, description="So many messages each must save beyond its price."
        ),
    ] = 0.0
    pin: Annotated[
        tuple[str, ...],
        msgspec.Meta(description="A broker that stays where it stands; repeatable.", title="NAME"),
    ] = ()
    pin_user: Annotated[
        tuple[str, ...],
        msgspec.Meta(description="A user that stays where it is; repeatable.", title="NAME"),
    ] = ()
    load_weight: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=1_000_000, description="Weight of a broker's load beside similarity."
        ),
    ] = 1.0
    delay_weight: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=1_000_000, description="Weight of a hop to a subscriber beside a message."
        ),
    ] = 1.0
    price: Annotated[
        Literal["predicted", "bound"],
        msgspec.Meta(
            title="predicted|bound",
            description="Messages of a swap: as predicted, or the paper's bound.",
        ),
    ] = "predicted"
    gateways: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=1_000,
            description="Also say what would be if clusters of so many brokers that want the same "
            "had one broker each on the ring, as in `hybrid`.",
        ),
    ] = 0
    json: Annotated[bool, msgspec.Meta(description="Print JSON.")] = False
    dry_run: Annotated[
        bool, msgspec.Meta(description="Touch nothing. `shoal plan` never does.")
    ] = False


class HybridOptions(TopicOptions, frozen=True, kw_only=True):
    """The same of clusters behind gateways."""

    per_gateway: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=1_000,
            description="So many brokers have one gateway; with --network as that has it.",
        ),
    ] = PER_GATEWAY


def _plan(system: str, measured: MeasuredSystem, options: TopicOptions) -> None:
    """Print better places, by files or, with `--network`, for running brokers."""
    from shoal.cli.systems.dynatops.words import as_orders, in_words
    from shoal.overlays.dynatops.planning.advising.advice import advise
    from shoal.overlays.dynatops.planning.advising.survey import SurveyedInterests

    survey, pinned = _survey(system, measured, options)
    found = advise(
        survey,
        SurveyedInterests(
            hours=options.hours,
            most_swaps=options.most_swaps,
            most_moves=options.most_moves,
            least_gain=options.least_gain,
            pinned=pinned | frozenset(options.pin),
            pinned_users=frozenset(options.pin_user),
            load_weight=options.load_weight,
            delay_weight=options.delay_weight,
            price=options.price,
            gateways=options.gateways,
        ),
    )
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        print("\n".join(in_words(found)))
        if options.network is not None and found.swaps:
            print(f"to swap them:\n  {as_orders(found, options.network)}")


def _survey(
    system: str, measured: MeasuredSystem, options: TopicOptions
) -> tuple[UserSurvey, frozenset[BrokerId]]:
    """Return the data, and the brokers that the network's parameters pin."""
    from shoal.cli.systems.dynatops.files import read_topic_survey

    rtt, rates, sites, *caller = measured
    if options.network is None:
        if options.users is None:
            raise UserError(f"--users: {system} is planned by users' topics; give a file of them")
        survey = read_topic_survey(options.users, options.brokers, rates, rtt, sites)
        per_gateway = options.per_gateway if isinstance(options, HybridOptions) else 1
        found = msgspec.structs.replace(survey, system=system, per_gateway=per_gateway)
        return found, frozenset()
    from shoal.cli.support.live.networks import read_network
    from shoal.cli.systems.dynatops.asking import ask_ring

    others = {"--users": options.users, "--brokers": options.brokers, "--rtt": rtt}
    for name, file in others.items():
        if file is not None:
            raise UserError(f"{name}: with --network its brokers are asked; leave it out")
    network = read_network(options.network, has_files=False)
    if network.system != system:
        other = f"; try shoal plan {network.system}" if network.system in PLANNING else ""
        raise UserError(f"{options.network}: its system is {network.system}, not {system}{other}")
    return ask_ring(network, read_caller(network, *caller), rates)


_ABOUT = (
    "say which users should move to other brokers, and which brokers should change places, each "
    "with what it saves and costs, and only if it pays; of files, or, with `--network`, of brokers "
    "that run."
)

PLANNING: Mapping[str, Planning] = {
    **dict.fromkeys(RINGS, Planning(TopicOptions, _plan, _ABOUT)),
    "hybrid": Planning(HybridOptions, _plan, _ABOUT),
}
