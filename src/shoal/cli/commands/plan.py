"""`shoal plan`: which overlay suits some brokers, and who should be elsewhere on topic trees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import typer

from shoal.cli.support.declared_options import (
    check_bounds,
    declared_options,
    given,
    option_name,
    with_declared,
)
from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.overlays.dynatops.parameters import PER_GATEWAY
from shoal.overlays.planning import PlanError, Planner, Wishes
from shoal.overlays.registry import SYSTEMS

if TYPE_CHECKING:
    from shoal.model import BrokerId
    from shoal.overlays.dynatops.planning.advising.survey import Survey

TOPIC_TREES = ("dynatops", "bayeux", "geops", "hybrid")
PLANNERS = {name: each.planner for name, each in SYSTEMS.items() if each.planner is not None}


class Asking(NamedTuple):
    """As which operator a network is asked."""

    operator: str
    password: str
    certificate: str


class OverlayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an overlay must be like."""

    survive: Annotated[
        int,
        msgspec.Meta(ge=0, description="So many brokers may die anywhere without harm to others."),
    ] = 1
    apart: Annotated[bool, msgspec.Meta(description="All brokers of one site may die, too.")] = (
        False
    )
    most_links: Annotated[
        int, msgspec.Meta(ge=1, description="So many links a broker may have.")
    ] = 8
    hop_ms: Annotated[
        float, msgspec.Meta(ge=0, description="What a link takes beside half its round trip.")
    ] = 1.0


class TopicOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What moves and swaps must be like."""

    network: Annotated[
        Path | None,
        msgspec.Meta(
            description="Of this network, which runs: who stands where and wants what, and what "
            "its manager counts. Instead of --users and --brokers.",
            title="NETWORK.toml",
        ),
    ] = None
    users: Annotated[
        Path | None,
        msgspec.Meta(description="Who wants what and is where, as CSV: user,broker,topic."),
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
            ge=0, le=1_000_000, description="What a broker's load counts beside similarity."
        ),
    ] = 1.0
    delay_weight: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=1_000_000, description="What a hop to who wants it counts beside a message."
        ),
    ] = 1.0
    price: Annotated[
        Literal["predicted", "bound"],
        msgspec.Meta(description="Of swaps: messages as predicted, or the paper's bound."),
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


BY_SYSTEM: Mapping[str, type[msgspec.Struct]] = {
    **dict.fromkeys(PLANNERS, OverlayOptions),
    **dict.fromkeys(TOPIC_TREES, TopicOptions),
    "hybrid": HybridOptions,
}
OPTIONS = declared_options(BY_SYSTEM)


def _plan(
    context: typer.Context,
    *,
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM", help=f"Of which system: {', '.join(BY_SYSTEM)}.")
    ],
    rtt: Annotated[
        Path | None,
        typer.Option(
            help="Round trips between brokers, or sites, as CSV: from,to,ms. Topic trees need none."
        ),
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(
            help="Publications a second, as CSV: from publishers' brokers to subscribers', "
            "from,to,per_second; of topic trees topic,per_second. Without, all alike, once."
        ),
    ] = None,
    sites: Annotated[
        Path | None, typer.Option(help="Where brokers stand, as CSV: broker,site.")
    ] = None,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
    said: dict[str, Any],
) -> None:
    """Say who should be where in an overlay.  Nothing is touched.

    `octopia`: print the section of a network file that places brokers best: who sits where, and
    which tree.  Best is the least mean delay of a delivery over shortest ways, nothing congested.
    Comments say what was compared.

    `dynatops`, `bayeux`, `geops`, `hybrid`: say which users should move to other brokers, and which
    brokers should change places, each with what it saves and costs, and only if it pays; of files,
    or, with `--network`, of brokers that run.
    """
    if system not in BY_SYSTEM:
        why = ", as its links follow from who wants what" if system == "tco" else ""
        known = ", ".join(BY_SYSTEM)
        raise UserError(f"{system}: there is no planner{why}; there is one for {known}")
    options = BY_SYSTEM[system]
    for name in given(context, OPTIONS):
        if name not in options.__struct_fields__:
            raise UserError(f"{option_name(name)} is not for {system}; see `shoal plan --help`")
    check_bounds(OPTIONS, said)
    chosen = {name: said[name] for name in options.__struct_fields__ if said[name] is not None}
    try:
        if system in TOPIC_TREES:
            asking = Asking(operator, operator_password, operator_certificate)
            wanted = options(**chosen)
            assert isinstance(wanted, TopicOptions)
            _advise(*_survey(system, rtt, rates, sites, wanted, asking), wanted)
        else:
            _place(system, PLANNERS[system], rtt, rates, sites, OverlayOptions(**chosen))
    except PlanError as error:
        raise UserError(f"no plan: {error}") from error


plan = with_declared(_plan, "said", OPTIONS)


def _place(
    system: str,
    planner: Planner,
    rtt: Path | None,
    rates: Path | None,
    sites: Path | None,
    options: OverlayOptions,
) -> None:
    from shoal.cli.support.plans.surveys import read_survey

    if rtt is None:
        raise UserError(f"--rtt: {system} is planned by round trips; give a file of them")
    if options.apart and sites is None:
        raise UserError("--apart: where brokers stand is not known; add --sites")
    survey = read_survey(rtt, rates, sites)
    found = planner(
        survey, Wishes(options.survive, options.apart, options.most_links, options.hop_ms)
    )
    print(f"# a delivery takes {found.mean_ms:.2f} ms on average, when nothing is congested; of")
    for reason in found.reasons:
        print(f"#   {reason}")
    given_parameters = msgspec.to_builtins(found.parameters)
    defaults = msgspec.to_builtins(type(found.parameters)())
    print(f"[{system}]")
    for key, value in given_parameters.items():
        if value != defaults[key]:
            print(_toml(key, value))


def _toml(key: str, value: object) -> str:
    """One key; rows of names stand each in a line."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)):
        rows = "".join(f"  {msgspec.json.encode(row).decode()},\n" for row in value)
        return f"{key} = [\n{rows}]"
    return msgspec.toml.encode({key: value}).decode().rstrip()


def _advise(survey: Survey, pinned: frozenset[BrokerId], options: TopicOptions) -> None:
    from shoal.cli.support.plans.topic_plans import as_orders, in_words
    from shoal.overlays.dynatops.planning.advising.advice import advise
    from shoal.overlays.dynatops.planning.advising.survey import Wishes as TopicWishes

    found = advise(
        survey,
        TopicWishes(
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
    system: str,
    rtt: Path | None,
    rates: Path | None,
    sites: Path | None,
    options: TopicOptions,
    asking: Asking,
) -> tuple[Survey, frozenset[BrokerId]]:
    """What is known, and which brokers stay by what their network has."""
    from shoal.cli.support.plans.topic_surveys import read_topic_survey

    if options.network is None:
        if options.users is None:
            raise UserError(f"--users: {system} is planned by who wants what; give a file of it")
        survey = read_topic_survey(options.users, options.brokers, rates, rtt, sites)
        per_gateway = options.per_gateway if isinstance(options, HybridOptions) else 1
        found = msgspec.structs.replace(survey, system=system, per_gateway=per_gateway)
        return found, frozenset()
    from shoal.cli.support.live.networks import read_network
    from shoal.cli.support.live.ring_surveys import ask_ring

    others = {"--users": options.users, "--brokers": options.brokers, "--rtt": rtt}
    for name, file in others.items():
        if file is not None:
            raise UserError(f"{name}: with --network its brokers are asked; leave it out")
    network = read_network(options.network, has_files=False)
    if network.system != system:
        other = f"; try shoal plan {network.system}" if network.system in TOPIC_TREES else ""
        raise UserError(f"{options.network}: its system is {network.system}, not {system}{other}")
    return ask_ring(network, read_caller(network, *asking), rates)
