"""A scenario: everything one simulated run depends on, as typed TOML.

A scenario and its seed decide a run down to the byte. Every key has a default but `name` and the
workload's path, an unknown key is an error, and the run keeps the complete form (all defaults
written out) beside its tables. Times are integer microseconds of virtual time.

>>> scenario = parse_scenario({"name": "lost links", "workload": {"path": "flights"},
...                            "faults": {"link_loss": 0.01}})
>>> scenario.system, scenario.topology.fan_out, scenario.faults.link_loss
('grape', 2, 0.01)
>>> parse_scenario({"name": "x", "workload": {"path": "y"}, "topolgy": {"kind": "star"}})
Traceback (most recent call last):
shoal.typed_toml.TomlError: scenario: topolgy: unknown key; did you mean topology? \
(docs/reference/scenario.md)

Paths in a scenario file are relative to that file's folder, those in overrides to the working
folder; in memory they are absolute, and a dumped scenario holds them relative to its own folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from shoal import typed_toml
from shoal.experiments.scenarios.changes import (
    HELD_BACK_US,
    Bursts,
    Churn,
    Membership,
    Mobility,
)
from shoal.experiments.scenarios.costs import ScenarioCosts
from shoal.experiments.scenarios.faults import Bandwidth, Faults
from shoal.experiments.scenarios.sections import (
    PAGE,
    NotNegative,
    Positive,
    ScenarioError,
    ScenarioSection,
    Text,
)
from shoal.model import BrokerId
from shoal.overlays.registry import PAGE as SYSTEMS_PAGE
from shoal.overlays.registry import SYSTEMS, unknown
from shoal.simulation.service import ServiceCosts

BrokerOrder = Literal["workload", "shuffled"]


class WorkloadSection(ScenarioSection, frozen=True, kw_only=True):
    """Publishers, subscriptions, publications and brokers.

    path   a folder made by `shoal workload`
    """

    path: Text


class BalancedTree(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="balanced"):
    """Level by level; the relocation paper's overlay has a fan-out of 2 (5.1).

    fan_out   brokers below each
    order     the broker on top: the workload's first, or one by the seed
    """

    fan_out: Positive = 2
    order: BrokerOrder = "workload"


class LineSection(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="line"):
    """Each broker linked to the next.

    order   of the brokers: the workload's, or one by the seed
    """

    order: BrokerOrder = "workload"


class LinksFile(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="links"):
    """Links from a table.

    path   Parquet or CSV with the columns left and right, or source and target; GraphML, whose
           nodes are brokers by their identifiers; without, the workload's own
    """

    path: str = ""


class MinimumSpanningTree(
    ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="minimum_spanning"
):
    """The shortest tree on the map.

    max_degree   links that a broker may have; 0: any number
    """

    max_degree: NotNegative = 0


class RandomTree(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="random"):
    """Each broker linked to a random earlier one, by the scenario's seed."""


class UniformTree(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="uniform"):
    """Any tree, each as likely as the others, by the scenario's seed."""


class RingSection(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="ring"):
    """Each broker linked to the next, the last to the first; for systems that need no tree.

    order   of the brokers: the workload's, or one by the seed
    """

    order: BrokerOrder = "workload"


class StarSection(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="star"):
    """Every broker linked to one.

    centre   the broker in the centre; without, the workload's first broker
    """

    centre: BrokerId = ""


Topology = (
    BalancedTree
    | LineSection
    | LinksFile
    | MinimumSpanningTree
    | RandomTree
    | RingSection
    | StarSection
    | UniformTree
)


class GeographySection(
    ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="geography"
):
    """Latency is that of light in fibre along the great circle; brokers need places.

    hop_cost_us        additional latency of a link
    local_latency_us   between a client and its broker
    """

    hop_cost_us: NotNegative = 500
    local_latency_us: Positive = 100


class Matrix(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="matrix"):
    """Measured round trips.

    Brokers are the hosts of their names if each has one; else the seed draws their hosts.

    path               Parquet or CSV, with the columns src, dst and rtt_ms, or from, to and ms
    fill_missing       a pair that was not measured takes the median; else it is an error
    local_latency_us   between a client and its broker
    """

    path: Text
    fill_missing: bool = False
    local_latency_us: Positive = 100


class ConstantSection(ScenarioSection, frozen=True, kw_only=True, tag_field="kind", tag="constant"):
    """Every two brokers equally far apart.

    latency_us         one way
    local_latency_us   between a client and its broker
    """

    latency_us: Positive = 10_000
    local_latency_us: Positive = 100


Underlay = GeographySection | Matrix | ConstantSection


class BrokerSpeed(ScenarioSection, frozen=True, kw_only=True):
    """One broker is faster or slower than the others.

    broker   the broker
    speed    its costs are those of all brokers, divided by this
    """

    broker: BrokerId
    speed: Annotated[float, msgspec.Meta(ge=0.001, le=1_000)]


class Service(ServiceCosts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of a message at a broker, with defaults and bounds.

    The paper prints no service times.  These stand for its class of broker (Java on a 1.86 GHz
    core, every message parsed, matched and serialised): with 1,000 subscriptions in the table,
    two neighbours and four local subscribers to serve, a publication takes 0.5 + 0.3 + 0.5 +
    2 * 0.15 + 4 * 0.05 = 1.8 ms.

    speeds   brokers that are faster or slower
    """

    processing_us: Positive = 500
    matching_us: NotNegative = 300
    matching_per_subscription_ns: NotNegative = 500
    transmission_us: Positive = 150
    client_transmission_us: Positive = 50
    publication_bytes: NotNegative = 0
    speeds: tuple[BrokerSpeed, ...] = ()


class TracingSection(ScenarioSection, frozen=True, kw_only=True):
    """Recorded data.

    window_us   load per broker, in windows of this length
    """

    window_us: Annotated[int, msgspec.Meta(ge=1_000)] = 1_000_000


class RunSection(ScenarioSection, frozen=True, kw_only=True):
    """When clients act, in virtual time from 0.

    advertise_at_us     the first publisher connects and advertises
    subscribe_at_us     the first subscriber connects and subscribes
    client_spacing_us   between one client's start and the next one's
    settle_us           from the last client's start to the replay's time 0
    drain_us            the longest wait, after the last publication, for messages under way
    """

    advertise_at_us: NotNegative = 0
    subscribe_at_us: NotNegative = 2_000_000
    client_spacing_us: NotNegative = 1_000
    settle_us: NotNegative = 5_000_000
    drain_us: NotNegative = 60_000_000


class _Common(ScenarioSection, frozen=True, kw_only=True):
    """Keys that do not depend on systems."""

    name: Text
    seed: NotNegative = 1
    system: str = "grape"
    workload: WorkloadSection
    topology: Topology = BalancedTree()
    underlay: Underlay = GeographySection()
    service: Service = Service()
    costs: ScenarioCosts = ScenarioCosts()
    bandwidth: Bandwidth = Bandwidth()
    faults: Faults = Faults()
    membership: Membership = Membership()
    mobility: Mobility = Mobility()
    churn: Churn = Churn()
    bursts: Bursts = Bursts()
    trace: TracingSection = TracingSection()
    run: RunSection = RunSection()

    def __post_init__(self) -> None:
        if problem := unknown(self.system):
            raise ValueError(f"system: {problem}")
        least_us = self.run.settle_us + self.withdrawal_us
        if self.churn.subscriptions and self.churn.away_us <= least_us:
            held = "" if least_us == 2 * self.run.settle_us else ", and 16 s as publishers move"
            raise ValueError(
                f"churn.away_us: {self.churn.away_us} is too short; take more than {least_us}, "
                f"twice run.settle_us{held}"
            )

    @property
    def withdrawal_us(self) -> int:
        """From the end of a subscription's time until it is withdrawn: publications of that time
        are under way, or held back by a publisher that moves.
        """
        moves = self.mobility.publishers or self.mobility.moves or self.membership.leaves
        return self.run.settle_us + (HELD_BACK_US if moves else 0)


class Scenario(_Common, frozen=True, kw_only=True):
    """One run: a scenario and its seed decide it down to the byte.

    Files that it names are relative to its folder, those in `--set` to the working folder.  Tables
    of systems that the chosen one does not use are kept and have no effect.

    name         name of the run in reports
    seed         decides all that is left to chance
    system       routing of the brokers
    workload     publications and subscriptions
    topology     links of the overlay
    underlay     latencies between brokers
    service      costs of a message at a broker
    costs        costs of messages that systems decide by
    bandwidth    bytes that links carry in a second
    faults       injected faults
    membership   brokers that join and leave
    mobility     clients that move from broker to broker
    churn        subscriptions that come and go
    bursts       times in which more is published
    trace        recorded data
    run          when clients act
    sections     each system's parameters, by its name
    """

    sections: dict[str, Any] = {}

    @property
    def parameters(self) -> msgspec.Struct:
        """Those of the chosen system."""
        found: msgspec.Struct | None = self.sections.get(self.system)
        return SYSTEMS[self.system].parameters() if found is None else found


# As it is written: a table for each system there is.
_WRITTEN: Any = msgspec.defstruct(
    "Scenario",
    [(name, system.parameters, system.parameters()) for name, system in SYSTEMS.items()],
    bases=(_Common,),
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)

_PAGES = {"": PAGE, **dict.fromkeys(SYSTEMS, SYSTEMS_PAGE)}

# Keys of a scenario that name files or folders.
PATHS = (("workload", "path"), ("topology", "path"), ("underlay", "path"), ("costs", "path"))

# Tables of what happens to a network during a run.
CHANGES = ("bandwidth", "faults", "membership", "mobility", "churn", "bursts")


def load_scenario(path: Path, overrides: Iterable[str] = ()) -> Scenario:
    """The scenario in a TOML file, with `key.path=value` overrides; else TomlError says why."""
    data = typed_toml.read_table(path)
    _map_paths(data, lambda text: str((path.parent / text).resolve()))
    return _finish(data, overrides, str(path))


def parse_scenario(data: dict[str, Any], overrides: Iterable[str] = ()) -> Scenario:
    """The scenario in nested dictionaries, with paths relative to the working folder."""
    copied = msgspec.to_builtins(data)
    return _finish(copied, overrides, "scenario")


def written_form(scenario: Scenario) -> dict[str, Any]:
    """The complete scenario as nested dictionaries, a table for each system."""
    data: dict[str, Any] = msgspec.to_builtins(scenario)
    sections: dict[str, Any] = data.pop("sections")
    return data | sections


def dump_scenario(scenario: Scenario, folder: Path) -> str:
    """The complete TOML, to be written into `folder`: loaded from there it is `scenario` again."""
    data, home = written_form(scenario), folder.resolve()
    _map_paths(data, lambda text: Path(os.path.relpath(text, home)).as_posix())
    return msgspec.toml.encode(data).decode()


def changed_tables(scenario: Scenario) -> list[str]:
    """The tables that change or hinder the network of a simulated run, and are not the defaults.

    A live network has its machine's faults, and its operator changes it.
    """
    defaults = {one.name: one.default for one in msgspec.structs.fields(Scenario)}
    return [name for name in CHANGES if getattr(scenario, name) != defaults[name]]


def costs_by_broker(
    service: Service, brokers: Collection[BrokerId]
) -> dict[BrokerId, ServiceCosts]:
    """The costs of brokers with a speed of their own; ScenarioError for one that is not there."""
    found: dict[BrokerId, ServiceCosts] = {}
    for number, each in enumerate(service.speeds):
        key = f"service.speeds[{number}].broker"
        if each.broker not in brokers:
            raise ScenarioError(f"{key}: no broker {each.broker!r} ({PAGE})")
        if each.broker in found:
            raise ScenarioError(f"{key}: {each.broker!r} is listed twice ({PAGE})")
        found[each.broker] = service.at_speed(each.speed)
    return found


def _finish(data: dict[str, Any], overrides: Iterable[str], label: str) -> Scenario:
    overridden = typed_toml.override(data, overrides, _WRITTEN)
    _map_paths(data, lambda text: str(Path(text).resolve()))
    # Before its table is taken for a slip of the pen.
    if isinstance(system := data.get("system"), str) and (problem := unknown(system)):
        origin = typed_toml.OVERRIDE if "system" in overridden else label
        raise typed_toml.TomlError(f"{origin}: system: {problem}")
    written = typed_toml.convert(data, _WRITTEN, label, overridden, pages=_PAGES)
    scenario = Scenario(
        **{key: getattr(written, key) for key in _Common.__struct_fields__},
        sections={name: getattr(written, name) for name in SYSTEMS},
    )
    _check_settings(overridden, scenario.system)
    return scenario


def has_effect(key: str, system: str) -> bool:
    """Whether a system depends on a key: its own links leave a topology none, for example.

    >>> has_effect("grape.weight", "grape"), has_effect("grape.weight", "tree")
    (True, False)
    """
    section = key.partition(".")[0].strip()
    if section == "topology":
        return not SYSTEMS[system].shape.opens_links and SYSTEMS[system].links is None
    return section not in SYSTEMS or section == system


def _check_settings(overridden: Iterable[str], system: str) -> None:
    """TomlError for a setting that the chosen system does not know; a file may have it."""
    for path in overridden:
        if not has_effect(path, system):
            raise typed_toml.TomlError(
                f"{typed_toml.OVERRIDE} {path}: {system} does not know it, so it has no effect "
                f"({SYSTEMS_PAGE})"
            )


def _map_paths(data: dict[str, Any], change: Callable[[str], str]) -> None:
    for section, key in PATHS:
        table = data.get(section)
        if isinstance(table, dict) and isinstance(table.get(key), str) and table[key]:
            table[key] = change(table[key])
