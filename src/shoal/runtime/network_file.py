"""A network file: the network's brokers, their addresses, links and system.

One TOML file describes the whole network and every broker reads the same; `shoal serve` takes a
broker's name beside it. An unknown key is an error, and `problems` finds errors beyond the types:
links to missing brokers, overlays that are no trees, missing certificates.

>>> network = parse_network({"name": "two", "links": [["B1", "B2"]], "brokers": [
...     {"name": "B1", "peers": "127.0.0.1:7001"}, {"name": "B2", "peers": "127.0.0.1:7002"}]})
>>> network.system, network.neighbours("B1")
('tree', ('B2',))
>>> parse_network({"name": "two", "brokers": [{"name": "B1", "pears": "127.0.0.1:7001"}]})
Traceback (most recent call last):
shoal.typed_toml.TomlError: network: brokers[0].pears: unknown key; did you mean peers? \
(docs/reference/network-file.md)

Files that a network file names are relative to its folder; `{broker}` in their names stands for
the broker that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec

from shoal import typed_toml
from shoal.attributes import Json
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.strategy import StrategyFactory
from shoal.model import BrokerId
from shoal.mqtt.front_end.network import travels_in
from shoal.mqtt.limits import MqttLimits
from shoal.overlays.registry import PAGE as SYSTEMS_PAGE
from shoal.overlays.registry import SYSTEMS, strategy_factory, unknown
from shoal.overlays.shapes import TopologyError
from shoal.overlays.system import Spares
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.network_sections import (
    FOR_CLIENTS,
    AccessSection,
    Acknowledge,
    AdminSection,
    BrokerSection,
    ClientTlsSection,
    CostsSection,
    LinksSection,
    LogSection,
    Name,
    NetworkSection,
    ScalingSection,
    StorageSection,
    TlsSection,
    TraceSection,
)
from shoal.typed_toml import TomlError

NETWORK = "network"
# The page that explains its keys.
PAGE = "docs/reference/network-file.md"


class NetworkFile(NetworkSection, frozen=True, kw_only=True):
    """One TOML file describes the whole network, and every broker reads the same.

    Files that it names are relative to its folder; `{broker}` in their names stands for the broker
    that reads it.

    name          the network's; brokers that join bring it
    brokers       the brokers and their addresses
    system        the routing system of the brokers
    links         pairs of brokers; systems that define their own links need none
    seed          seed of the brokers' own random numbers
    grows         other brokers may join a broker that is alone in its file; it is slower then
    json          payloads that are attributes: "auto", JSON objects and plain values, unless their
                  content type is another; "declared", payloads with content type application/json,
                  +json or text/plain; or "never"
    tls           between brokers
    plain_links   links go without TLS also at addresses that other machines reach (a network of
                  their own, as containers have): any machine that reaches a broker can claim to be
                  another
    access        authentication and authorization of clients
    client_tls    for clients
    admin         operators of the brokers' admin ports
    limits        limits that a broker grants its clients
    link_limits   bounds of every link
    storage       state that outlasts a stop
    log           publications that are kept, to be read again
    trace         Parquet files of events
    costs         costs of messages
    scaling       commands that start and end brokers as load asks for it
    """

    name: Name
    brokers: Annotated[tuple[BrokerSection, ...], msgspec.Meta(min_length=1)]
    system: str = "tree"
    links: tuple[tuple[BrokerId, BrokerId], ...] = ()
    seed: int = 0
    grows: bool = False
    json: Json = "auto"
    tls: TlsSection | None = None
    plain_links: bool = False
    access: AccessSection = AccessSection()
    client_tls: ClientTlsSection | None = None
    admin: AdminSection = AdminSection()
    limits: MqttLimits = MqttLimits()
    link_limits: LinksSection = LinksSection()
    storage: StorageSection = StorageSection()
    log: LogSection = LogSection()
    trace: TraceSection = TraceSection()
    costs: CostsSection = CostsSection()
    scaling: ScalingSection = ScalingSection()
    parameters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if problem := unknown(self.system):
            raise ValueError(f"system: {problem}")

    def broker(self, name: BrokerId) -> BrokerSection:
        """The broker of that name; KeyError when there is none."""
        for broker in self.brokers:
            if broker.name == name:
                return broker
        raise KeyError(name)

    def neighbours(self, name: BrokerId) -> tuple[BrokerId, ...]:
        """Return the brokers that links join to a broker, sorted."""
        ends = [link for link in self.links if name in link]
        return tuple(sorted(right if left == name else left for left, right in ends))

    @property
    def bounds(self) -> LinkLimits:
        """Return the limits of each link; the file, or else the system, sets the time after which a
        disconnected neighbour is given up.
        """
        limits = self.link_limits.limits
        if self.link_limits.give_up_us is not msgspec.UNSET:
            return limits
        return msgspec.structs.replace(limits, give_up_us=SYSTEMS[self.system].give_up_us)

    @property
    def acknowledge(self) -> Acknowledge:
        """Return when what clients publish at QoS 1 and 2 is acknowledged."""
        storage = self.storage
        if storage.acknowledge is not msgspec.UNSET:
            return storage.acknowledge
        return "stored" if storage.folder and SYSTEMS[self.system].stores else "settled"

    def strangers(self, joined: Iterable[BrokerId] = ()) -> list[str]:
        """Names in the system's parameters that no broker has, nor one that has joined."""
        names = (*(broker.name for broker in self.brokers), *joined)
        return SYSTEMS[self.system].strangers(self.system_parameters, names)

    @property
    def spares(self) -> Spares:
        """Return the brokers that start only when load asks for them."""
        system = SYSTEMS[self.system]
        return system.spares(self.system_parameters or system.parameters())

    @property
    def no_joiners(self) -> str:
        """Return why brokers neither join nor leave while the network runs, if they do not."""
        if SYSTEMS[self.system].grows:
            return ""
        return f"brokers of {self.system} are those of the network file: none joins or leaves"

    @property
    def system_parameters(self) -> msgspec.Struct | None:
        found: msgspec.Struct | None = self.parameters.get(self.system)
        return found

    @property
    def factory(self) -> StrategyFactory:
        """Return the factory of the system at one of these brokers."""
        names = [broker.name for broker in self.brokers]
        return strategy_factory(self.system, self.system_parameters, names)


# Systems' tables have the systems' names.
_OWN_KEYS = tuple(key for key in NetworkFile.__struct_fields__ if key != "parameters")
KNOWN_KEYS = [*_OWN_KEYS, *SYSTEMS]
NO_PARAMETERS = f"unknown key; a system's table has its name ({PAGE})"


# Keys of a network file that name files or folders.
_FILES = {
    "tls": ("authority", "certificate", "key"),
    "client_tls": ("authority", "certificate", "key"),
    "access": ("passwords",),
    "access.http": ("authority", "bearer_file"),
    "access.jwt": ("key_file", "secret_file", "authority"),
    "admin": ("authority", "certificate", "key", "passwords", "operator_authority"),
    "storage": ("folder",),
    "log": ("folder",),
    "trace": ("folder",),
}
# Those need not exist: brokers make the files that they name.
_MADE = ("storage", "log", "trace")


def load_network(path: Path) -> NetworkFile:
    """The network in a TOML file; TomlError names the fault and its place."""
    data = typed_toml.read_table(path)
    return located(parse_network(data, str(path)), path.parent.resolve())


def located(network: NetworkFile, folder: Path) -> NetworkFile:
    """The network with whole paths of the files that it names, which are relative to a folder."""
    for name, keys in _FILES.items():
        section = _table(network, name)
        if section is not None:
            paths = {key: str(folder / text) for key in keys if (text := getattr(section, key))}
            network = _with_table(network, name, msgspec.structs.replace(section, **paths))
    return network


def _table(network: NetworkFile, name: str) -> Any:
    """A table of the file by its name, `access.http`."""
    return attrgetter(name)(network)


def _with_table(network: NetworkFile, name: str, section: Any) -> NetworkFile:
    outer, _, inner = name.partition(".")
    if inner:
        section = msgspec.structs.replace(getattr(network, outer), **{inner: section})
    return msgspec.structs.replace(network, **{outer: section})


def parse_network(data: dict[str, Any], label: str = NETWORK) -> NetworkFile:
    """The network in nested dictionaries; every system has a table of its own name in it."""
    data = dict(data)
    if "parameters" in data:
        raise TomlError(f"{label}: parameters: {NO_PARAMETERS}")
    # Before its table is taken for a slip of the pen.
    if isinstance(system := data.get("system"), str) and (problem := unknown(system)):
        raise TomlError(f"{label}: system: {problem}")
    given, kind = take_systems(data)
    systems = typed_toml.convert(given, kind, label, pages={"": SYSTEMS_PAGE})
    network = typed_toml.convert(data, NetworkFile, label, known=KNOWN_KEYS, pages={"": PAGE})
    return complete(network, systems, has_links="links" in data)


def take_systems(data: dict[str, Any]) -> tuple[dict[str, Any], type[msgspec.Struct]]:
    """Take the systems' tables out of a network file's; these, and the struct that they make."""
    given = {name: data.pop(name) for name in SYSTEMS if name in data}
    kind = msgspec.defstruct(
        "Systems",
        [(name, SYSTEMS[name].parameters, msgspec.UNSET) for name in given],
        frozen=True,
        kw_only=True,
    )
    return given, kind


def complete(network: NetworkFile, systems: msgspec.Struct, *, has_links: bool) -> NetworkFile:
    """The network with its systems' parameters, and, without links, those that they say."""
    parameters = {name: getattr(systems, name) for name in systems.__struct_fields__}
    given = {name: each for name, each in parameters.items() if each is not msgspec.UNSET}
    network = msgspec.structs.replace(network, parameters=given)
    return network if has_links else _with_links(network)


def _with_links(network: NetworkFile) -> NetworkFile:
    """With the links that the system's parameters say, if they do; else it has none."""
    system, names = SYSTEMS[network.system], [broker.name for broker in network.brokers]
    if system.links is None:
        return network
    with suppress(TopologyError):  # `problems` says it
        links = system.make_links(network.system_parameters, names)
        return msgspec.structs.replace(network, links=tuple(links))
    return network


def changed_keys(before: NetworkFile, after: NetworkFile) -> list[str]:
    """The keys of the file that differ, a system's table by its name."""
    changed = [key for key in _OWN_KEYS if getattr(before, key) != getattr(after, key)]
    one, other = before.parameters, after.parameters
    return changed + [key for key in SYSTEMS if one.get(key) != other.get(key)]


def dump_network(network: NetworkFile) -> str:
    """The TOML that is read as this network."""
    data = msgspec.to_builtins(network)
    parameters = data.pop("parameters")
    data = {key: value for key, value in data.items() if value is not None}
    return msgspec.toml.encode(data | parameters).decode()


def problems(network: NetworkFile, newcomer: BrokerId = "", *, has_files: bool = True) -> list[str]:
    """Return errors in a network beyond its types, each with the path of its key.

    Links that parameters define do not include a `newcomer`. With `has_files` the files that the
    brokers need must be here.
    """
    names = [broker.name for broker in network.brokers]
    found = [
        f"brokers[{place}].name: there is another broker {name!r}"
        for place, name in enumerate(names)
        if name in names[:place]
    ]
    for place, (left, right) in enumerate(network.links):
        found += [f"links[{place}]: no broker {end!r}" for end in (left, right) if end not in names]
        if left == right:
            found.append(f"links[{place}]: joins {left!r} to itself")
    if not found:
        try:
            system = SYSTEMS[network.system]
            there, links = names, network.links
            if newcomer and system.links is not None:
                there = [name for name in names if name != newcomer]
                links = tuple(link for link in links if newcomer not in link)
            system.check_links(network.system_parameters, there, links)
        except TopologyError as error:
            found.append(f"links: {error}")
    found += _address_problems(network)
    found += _access_problems(network)
    found += _admin_problems(network)
    found += _size_problems(network)
    found += _patience_problems(network)
    found += _missing_files(network) if has_files else []
    found += _cost_problems(network)
    if network.spares.are_started and not network.scaling.is_on:
        found.append(f"scaling: set start and end, commands for {', '.join(network.spares.names)}")
    found += _log_problems(network)
    folder = network.storage.folder
    if folder and "{broker}" not in folder and Path(folder).exists() and not Path(folder).is_dir():
        found.append(f"storage.folder: {folder} is no folder")
    if network.storage.acknowledge == "stored":
        where = "storage.acknowledge: stored"
        if not folder:
            found.append(f"{where} needs a disk; set storage.folder")
        if not SYSTEMS[network.system].stores:
            found.append(f"{where}: {network.system} does not, and counts who is away as gone")
    return found


def hints(network: NetworkFile) -> list[str]:
    """Return warnings about settings that are allowed, and perhaps not intended."""
    found = []
    for place, broker in enumerate(network.brokers if len(network.brokers) > 1 else ()):
        for key in ("peers", *FOR_CLIENTS):
            text = broker.reached_at(key)
            if text and read_address(text).is_anywhere:
                who = "other brokers connect to" if key == "peers" else "no client is sent to"
                found.append(
                    f"brokers[{place}].{key}: {who} {text}, which is no place elsewhere; "
                    f"say in brokers[{place}].public where it is"
                )
    for place, broker in enumerate(network.brokers):
        if broker.log and network.log.folder_of(broker.name) is None:
            why = "log.folder" if not network.log.folder else f"log.brokers with {broker.name}"
            found.append(f"brokers[{place}].log: {broker.name} keeps no log; set {why}")
    costs, names = network.costs, [broker.name for broker in network.brokers]
    for place, (left, right) in enumerate(network.links if costs.links else ()):
        if right not in costs.costs_from(left, names):
            found.append(f"links[{place}]: {left}-{right} has no cost in costs.links")
    return found


def _log_problems(network: NetworkFile) -> list[str]:
    log, names = network.log, [broker.name for broker in network.brokers]
    found = [f"log.brokers: no broker {name!r}" for name in log.brokers if name not in names]
    if log.folder and Path(log.folder).is_file():
        found.append(f"log.folder: {log.folder} is no folder")
    return found


def _cost_problems(network: NetworkFile) -> list[str]:
    names, costs = [broker.name for broker in network.brokers], network.costs.links
    pairs = {f"{left}-{right}": (left, right) for left in names for right in names if left != right}
    found = [
        f"costs.links: {key!r} is no two brokers, such as {names[0]}-{names[-1]}"
        for key in costs
        if key not in pairs
    ]
    return found + [
        f"costs.links: {left}-{right} and {right}-{left} are one link"
        for key, (left, right) in pairs.items()
        if left < right and key in costs and f"{right}-{left}" in costs
    ]


def _address_problems(network: NetworkFile) -> list[str]:
    found = []
    # Loopback is one machine; elsewhere two brokers may each have a machine and its ports.
    taken: dict[tuple[Address, BrokerId], str] = {}
    is_plain = network.tls is None and not network.plain_links
    for place, broker in enumerate(network.brokers):
        for key, text in broker.listeners().items():
            address, where = read_address(text), f"brokers[{place}].{key}"
            machine = address, "" if address.is_loopback else broker.name
            if address.port and machine in taken:
                found.append(f"{where}: {address} is {taken[machine]} already")
            taken[machine] = where
            if key == "peers" and not address.port and (network.grows or len(network.brokers) > 1):
                found.append(f"{where}: other brokers must know the port; 0 is any free one")
            if key == "peers" and is_plain and not address.is_loopback:
                found.append(f"{where}: {address} is open to other machines; it needs [tls]")
    return found


def _access_problems(network: NetworkFile) -> list[str]:
    access, found = network.access, []
    clients = [key for each in network.brokers for key in each.listeners() if key in FOR_CLIENTS]
    certified = network.client_tls is not None and network.client_tls.authority
    if clients and not (access.anonymous or access.passwords or access.knows_others or certified):
        found.append(
            "access: no client is admitted; set anonymous = true or name passwords = a file"
        )
    if network.client_tls is None and {"mqtts", "wss"} & set(clients):
        found.append("client_tls: is missing; listeners over TLS (mqtts, wss) need it")
    return found


def _admin_problems(network: NetworkFile) -> list[str]:
    admin, found = network.admin, []
    if bool(admin.certificate) != bool(admin.key):
        found.append("admin: give certificate and key, or neither")
    if admin.authority and not admin.certificate:
        found.append("admin.authority: signs no certificate; give certificate and key")
    if admin.operator_authority and not admin.certificate:
        found.append("admin.operator_authority: is for ports over TLS; give certificate and key")
    if admin.orders and not admin.knows_operators:
        found.append("admin.orders: no operator authenticates; set admin.passwords")
    missing = [] if admin.certificate else ["certificate"]
    missing += [] if admin.knows_operators else ["passwords"]
    for place, broker in enumerate(network.brokers):
        address = broker.address("admin")
        if missing and not admin.open and address is not None and not address.is_loopback:
            found.append(
                f"brokers[{place}].admin: {address} is open to other machines; set "
                f"{' and '.join(f'admin.{key}' for key in missing)}, or admin.open = true"
            )
    return found


def _size_problems(network: NetworkFile) -> list[str]:
    """Check that limits of one broker's clients fit the links to the others."""
    size, longest = network.limits.maximum_packet_size, network.link_limits.limits
    is_alone = len(network.brokers) == 1 and not network.grows
    if is_alone or travels_in(size) <= longest.longest_frame_bytes:
        return []
    most = (longest.longest_frame_bytes - travels_in(0)) // 2
    return [
        f"limits.maximum_packet_size: {size} bytes do not fit on links; take at most {most}, or "
        "raise link_limits.limit_bytes"
    ]


def _patience_problems(network: NetworkFile) -> list[str]:
    """Check that messages for a disconnected broker cannot arrive after others have given up on
    them.
    """
    system, bounds = SYSTEMS[network.system], network.bounds
    most_us = system.most_silent_us(network.system_parameters or system.parameters())
    if most_us is None or bounds.silence_us + bounds.give_up_us < most_us:
        return []
    return [
        f"link_limits.give_up_us: {bounds.give_up_us} and silence_us, {bounds.silence_us}, are "
        f"together to be less than {most_us}, for which {network.system} waits for what is on links"
    ]


def _missing_files(network: NetworkFile) -> list[str]:
    found = []
    for name, keys in _FILES.items():
        section = _table(network, name)
        for key in keys if section is not None and name not in _MADE else ():
            pattern = getattr(section, key)
            # A broker has its own key; those of others need not be here.
            if pattern and "{broker}" not in pattern and not Path(pattern).is_file():
                found.append(f"{name}.{key}: no file {pattern}")
    return found
