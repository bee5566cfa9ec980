"""A network file: which brokers there are, where they are, how they are linked, what they run.

One TOML file describes the whole network and every broker reads the same; `shoal serve` takes a
broker's name beside it.  A key nobody knows is an error, and `problems` finds what the types
cannot: links to nobody, overlays that are no trees, certificates that are not there.

>>> network = parse_network({"name": "two", "links": [["B1", "B2"]], "brokers": [
...     {"name": "B1", "peers": "127.0.0.1:7001"}, {"name": "B2", "peers": "127.0.0.1:7002"}]})
>>> network.system, network.neighbours("B1")
('tree', ('B2',))
>>> parse_network({"name": "two", "brokers": [{"name": "B1", "pears": "127.0.0.1:7001"}]})
Traceback (most recent call last):
shoal.typed_toml.TomlError: network: brokers[0].pears: unknown key; did you mean peers?

Files that a network file names are relative to its folder; `{broker}` in their names stands for
the broker that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from shoal import typed_toml
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.strategy import StrategyFactory
from shoal.matching.topics.filters import TopicError, read_topic_filter
from shoal.model import BrokerId
from shoal.mqtt.content import Json
from shoal.mqtt.door.network import travels_in
from shoal.mqtt.limits import Limits
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.shapes import TopologyError
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.storage.journal_files import Sync
from shoal.runtime.storage.spool_files import MAXIMUM_BYTES
from shoal.typed_toml import TomlError

Acknowledge = Literal["settled", "stored"]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Cost = Annotated[float, msgspec.Meta(ge=0)]
# Names go into file names, metrics and certificates.
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

NETWORK = "network"
_FOR_CLIENTS = ("mqtt", "mqtts", "websocket", "wss")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a network file."""


class BrokerSection(Section, frozen=True, kw_only=True):
    """One broker and where it listens; what is not named does not listen.

    peers       for other brokers; they also dial it
    mqtt        for MQTT clients, over TCP
    mqtts       for MQTT clients, over TLS
    websocket   for MQTT clients, over WebSocket
    wss         for MQTT clients, over WebSocket over TLS
    admin       health, status and metrics, over HTTP
    """

    name: Name
    peers: Text
    mqtt: str = ""
    mqtts: str = ""
    websocket: str = ""
    wss: str = ""
    admin: str = ""

    def __post_init__(self) -> None:
        for key, text in self.listeners().items():
            try:
                read_address(text)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from None

    def listeners(self) -> dict[str, str]:
        """The addresses that are given, by key."""
        keys = ("peers", *_FOR_CLIENTS, "admin")
        return {key: text for key in keys if (text := getattr(self, key))}

    def address(self, key: str) -> Address | None:
        text = self.listeners().get(key)
        return None if text is None else read_address(text)


class TlsSection(Section, frozen=True, kw_only=True):
    """Mutual TLS between brokers, as PEM files; a certificate is made out to its broker's name."""

    authority: Text
    certificate: Text
    key: Text


class RuleSection(Section, frozen=True, kw_only=True):
    """What a user may do: topic filters, where %u is the user's name and %c the client's.

    `user` is a name, `*` for everybody, or empty for whoever gave no name.
    """

    user: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("publish", "subscribe"):
            for pattern in getattr(self, key):
                try:
                    read_topic_filter(pattern)
                except TopicError as error:
                    raise ValueError(f"{key}: {error}") from None


class AccessSection(Section, frozen=True, kw_only=True):
    """Who is let in; see `shoal.runtime.doors.access`.  Without users and `anonymous`, nobody.

    anonymous   clients that do not say who they are
    passwords   a file made by `shoal password`
    origins     where web pages that connect over WebSocket may come from, besides the listener's
                own host (`https://app.example.org`; `*` is anywhere)
    """

    anonymous: bool = False
    passwords: str = ""
    origins: tuple[str, ...] = ()
    rules: tuple[RuleSection, ...] = ()


class ClientTlsSection(Section, frozen=True, kw_only=True):
    """For listeners over TLS; with an authority, clients must have certificates that it signed."""

    certificate: Text
    key: Text
    authority: str = ""


class LinksSection(Section, frozen=True, kw_only=True):
    """Bounds of every link; see `shoal.broker.links.session.LinkLimits`."""

    window_bytes: Positive = 4 * 2**20
    high_bytes: Positive = 8 * 2**20
    low_bytes: Positive = 4 * 2**20
    limit_bytes: Positive = 128 * 2**20
    silence_us: Positive = 5_000_000
    give_up_us: Positive | msgspec.UnsetType = msgspec.UNSET
    park_us: Positive = 2_000_000

    def __post_init__(self) -> None:
        if not self.low_bytes < self.high_bytes < self.limit_bytes:
            raise ValueError("high_bytes: is not between low_bytes and limit_bytes")

    @property
    def limits(self) -> LinkLimits:
        given = msgspec.structs.asdict(self).items()
        return LinkLimits(**{key: value for key, value in given if value is not msgspec.UNSET})


class StorageSection(Section, frozen=True, kw_only=True):
    """What brokers remember of their MQTT clients when they are stopped or killed; without a
    folder, nothing.

    folder   each broker has a folder of its name in it, unless {broker} is in the folder's own
    sync     when written bytes are made to outlast a power cut: never (the system decides), every
             second, or always, with each write; being killed loses nothing in any case

    acknowledge            when QoS 1 and 2 are acknowledged: settled (in the sessions of all their
                           subscribers), or stored (for subscribers behind a broker that is away, on
                           the disk of the broker before it); with a folder and links, stored
    absent_s               stored: a broker that is away for so long counts as gone
    maximum_absent_bytes   stored: what one broker keeps for its neighbours that are away; beyond
                           this it refuses
    """

    folder: str = ""
    sync: Sync = "second"
    acknowledge: Acknowledge | msgspec.UnsetType = msgspec.UNSET
    absent_s: Positive = 86_400
    maximum_absent_bytes: Positive = MAXIMUM_BYTES


class CostsSection(Section, frozen=True, kw_only=True):
    """What messages cost, in µs, for systems that choose their links by it.

    here    to process one at a broker; else it is measured
    links   to send one from one of two brokers to the other, as in {"B1-B2" = 3.0}: brokers that
            are no pair here may not be linked; without any all may be, and delays are measured
    """

    here: Cost | msgspec.UnsetType = msgspec.UNSET
    links: dict[str, Cost] = {}

    def of(self, broker: BrokerId, brokers: Iterable[BrokerId]) -> dict[BrokerId, float]:
        """What it costs to send to each broker that a broker may be linked to."""
        found = {}
        for other in brokers:
            for key in (f"{broker}-{other}", f"{other}-{broker}"):
                if key in self.links and other != broker:
                    found[other] = self.links[key]
        return found


class TraceSection(Section, frozen=True, kw_only=True):
    """Parquet files of what happens, for the pipeline; without a folder none are written.

    rows, seconds   when the next file is begun
    keep            files of each table that are kept, the oldest go
    """

    folder: str = ""
    rows: Positive = 100_000
    seconds: Positive = 60
    keep: Positive = 100


class Network(Section, frozen=True, kw_only=True):
    """The whole file.

    seed          starts the brokers' own randomness
    grows         others may join a broker that is alone in its file; it is slower then
    json          which payloads' fields are attributes: "auto", of those that begin as a JSON
                  object, unless their content type is another; "declared", of those whose
                  content type is application/json; or "never"
    plain_links   links go without TLS also where other machines reach them (a network of their
                  own, as containers have): whoever reaches a broker can claim to be another
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
    limits: Limits = Limits()
    link_limits: LinksSection = LinksSection()
    storage: StorageSection = StorageSection()
    trace: TraceSection = TraceSection()
    costs: CostsSection = CostsSection()
    parameters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS:
            raise ValueError(f"system: no system {self.system!r}; use one of {', '.join(SYSTEMS)}")

    def broker(self, name: BrokerId) -> BrokerSection:
        """The broker of that name; KeyError when there is none."""
        for broker in self.brokers:
            if broker.name == name:
                return broker
        raise KeyError(name)

    def neighbours(self, name: BrokerId) -> tuple[BrokerId, ...]:
        """Whom the links join to a broker, sorted."""
        ends = [link for link in self.links if name in link]
        return tuple(sorted(right if left == name else left for left, right in ends))

    @property
    def bounds(self) -> LinkLimits:
        """The limits of each link; who is away is given up as the system says, or the file."""
        limits = self.link_limits.limits
        if self.link_limits.give_up_us is not msgspec.UNSET:
            return limits
        return msgspec.structs.replace(limits, give_up_us=SYSTEMS[self.system].give_up_us)

    @property
    def acknowledge(self) -> Acknowledge:
        """When what clients publish at QoS 1 and 2 is acknowledged."""
        storage = self.storage
        if storage.acknowledge is not msgspec.UNSET:
            return storage.acknowledge
        return "stored" if storage.folder and SYSTEMS[self.system].stores else "settled"

    def strangers(self, joined: Iterable[BrokerId] = ()) -> list[str]:
        """Names in the system's parameters that no broker has, nor one that has joined."""
        names = (*(broker.name for broker in self.brokers), *joined)
        return SYSTEMS[self.system].strangers(self.system_parameters, names)

    @property
    def no_joiners(self) -> str:
        """Why brokers neither join nor leave while the network runs, if they do not."""
        if SYSTEMS[self.system].grows:
            return ""
        return f"brokers of {self.system} are those of the network file: none joins or leaves"

    @property
    def system_parameters(self) -> msgspec.Struct | None:
        found: msgspec.Struct | None = self.parameters.get(self.system)
        return found

    @property
    def factory(self) -> StrategyFactory:
        """What builds the system at one of these brokers."""
        names = [broker.name for broker in self.brokers]
        return strategy_factory(self.system, self.system_parameters, names)


# Where a network file names files or folders.
_FILES = {
    "tls": ("authority", "certificate", "key"),
    "client_tls": ("authority", "certificate", "key"),
    "access": ("passwords",),
    "storage": ("folder",),
    "trace": ("folder",),
}
# Those that need not be there: what they name is made.
_MADE = ("storage", "trace")


def load_network(path: Path) -> Network:
    """The network in a TOML file; TomlError says what is wrong with it and where."""
    data = typed_toml.read_table(path)
    folder = path.parent.resolve()
    network = parse_network(data, str(path))
    changed = {}
    for name, keys in _FILES.items():
        section = getattr(network, name)
        if section is not None:
            paths = {key: str(folder / text) for key in keys if (text := getattr(section, key))}
            changed[name] = msgspec.structs.replace(section, **paths)
    return msgspec.structs.replace(network, **changed)


def parse_network(data: dict[str, Any], label: str = NETWORK) -> Network:
    """The network in nested dictionaries; every system has a table of its own name in it."""
    data = dict(data)
    if "parameters" in data:
        raise TomlError(f"{label}: parameters: unknown key; a system's table has its name")
    given = {name: data.pop(name) for name in SYSTEMS if name in data}
    kind = msgspec.defstruct(
        "Systems",
        [(name, SYSTEMS[name].parameters, msgspec.UNSET) for name in SYSTEMS],
        frozen=True,
        kw_only=True,
    )
    systems = typed_toml.convert(given, kind, label)
    parameters = {name: getattr(systems, name) for name in given}
    own = [key for key in Network.__struct_fields__ if key != "parameters"]
    network = typed_toml.convert(data, Network, label, known=[*own, *SYSTEMS])
    network = msgspec.structs.replace(network, parameters=parameters)
    return network if "links" in data else _with_links(network)


def _with_links(network: Network) -> Network:
    """With the links that the system's parameters say, if they do; else it has none."""
    system, names = SYSTEMS[network.system], [broker.name for broker in network.brokers]
    if system.links is None:
        return network
    with suppress(TopologyError):  # `problems` says it
        links = system.make_links(network.system_parameters, names)
        return msgspec.structs.replace(network, links=tuple(links))
    return network


def dump_network(network: Network) -> str:
    """The TOML that is read as this network."""
    data = msgspec.to_builtins(network)
    parameters = data.pop("parameters")
    data = {key: value for key, value in data.items() if value is not None}
    return msgspec.toml.encode(data | parameters).decode()


def problems(network: Network) -> list[str]:
    """What is wrong with a network beyond its types, each with the path of its key."""
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
            system.check_links(network.system_parameters, names, network.links)
        except TopologyError as error:
            found.append(f"links: {error}")
    found += _address_problems(network)
    found += _access_problems(network)
    found += _size_problems(network)
    found += _missing_files(network)
    pairs = {f"{left}-{right}" for left in names for right in names if left != right}
    found += [
        f"costs.links: {key!r} is no two brokers, such as {names[0]}-{names[-1]}"
        for key in network.costs.links
        if key not in pairs
    ]
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


def _address_problems(network: Network) -> list[str]:
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


def _access_problems(network: Network) -> list[str]:
    access, found = network.access, []
    clients = [key for each in network.brokers for key in each.listeners() if key in _FOR_CLIENTS]
    certified = network.client_tls is not None and network.client_tls.authority
    if clients and not (access.anonymous or access.passwords or certified):
        found.append("access: nobody is let in; set anonymous = true or name passwords = a file")
    if network.client_tls is None and {"mqtts", "wss"} & set(clients):
        found.append("client_tls: is missing; listeners over TLS (mqtts, wss) need it")
    return found


def _size_problems(network: Network) -> list[str]:
    """What one broker takes must fit on the way to the others."""
    size, longest = network.limits.maximum_packet_size, network.link_limits.limits
    is_alone = len(network.brokers) == 1 and not network.grows
    if is_alone or travels_in(size) <= longest.longest_frame_bytes:
        return []
    most = (longest.longest_frame_bytes - travels_in(0)) // 2
    return [
        f"limits.maximum_packet_size: {size} bytes do not fit on links; take at most {most}, or "
        "raise link_limits.limit_bytes"
    ]


def _missing_files(network: Network) -> list[str]:
    found = []
    for name, keys in _FILES.items():
        section = getattr(network, name)
        for key in keys if section is not None and name not in _MADE else ():
            pattern = getattr(section, key)
            # A broker has its own key; those of others need not be here.
            if pattern and "{broker}" not in pattern and not Path(pattern).is_file():
                found.append(f"{name}.{key}: no file {pattern}")
    return found
