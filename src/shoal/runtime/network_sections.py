"""The tables of a network file: brokers, TLS, access, links, storage, costs, traces.

`network_file.py` has the file as a whole.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from shoal.broker.links.outbox import LinkLimits
from shoal.log.publication_log import LogSettings
from shoal.matching.topics.filters import TopicError, read_topic_filter
from shoal.model import BrokerId
from shoal.runtime.addresses import Address, is_somewhere, read_address
from shoal.runtime.storage.journal_files import Sync
from shoal.runtime.storage.log_writer import Full, LogPolicy
from shoal.runtime.storage.spool_files import MAXIMUM_BYTES

Acknowledge = Literal["settled", "stored"]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Cost = Annotated[float, msgspec.Meta(ge=0)]
Latitude = Annotated[float, msgspec.Meta(ge=-90, le=90)]
Longitude = Annotated[float, msgspec.Meta(ge=-180, le=180)]
# Names go into file names, metrics and certificates.
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

MOST_SEGMENT_BYTES = 64 * 2**20
FOR_CLIENTS = ("mqtt", "mqtts", "websocket", "wss")


def own_folder(folder: str, broker: BrokerId) -> Path:
    """A broker's folder: that of its name in a folder, unless {broker} is in the folder's own."""
    own = folder.replace("{broker}", broker)
    return Path(own) if own != folder else Path(own) / broker


class NetworkSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a network file."""


class BrokerSection(NetworkSection, frozen=True, kw_only=True):
    """One broker and its listeners, as HOST:PORT; a key that is not set has no listener.

    name        the broker's name in the network
    peers       for other brokers; they also dial it
    mqtt        for MQTT clients, over TCP
    mqtts       for MQTT clients, over TLS
    websocket   for MQTT clients, over WebSocket
    wss         for MQTT clients, over WebSocket over TLS
    admin       health, status, metrics and orders, over HTTP (see the table [admin])
    log         the broker's log, over HTTP (see the table [log]); over TLS with [client_tls]
    place       the broker's latitude and longitude in degrees, for maps, and for paths by
                distance, in a system that has them: [40.64, -73.78]
    public      addresses of listeners for other machines, by their keys, if they differ: a listener
                takes all addresses of its machine (0.0.0.0), or is behind a NAT, a proxy, a
                container's port
    """

    name: Name
    peers: Text
    mqtt: str = ""
    mqtts: str = ""
    websocket: str = ""
    wss: str = ""
    admin: str = ""
    log: str = ""
    place: tuple[Latitude, Longitude] | msgspec.UnsetType = msgspec.UNSET
    public: dict[str, str] = {}

    def __post_init__(self) -> None:
        listeners = self.listeners()
        for key, text in [*listeners.items(), *self.public.items()]:
            try:
                read_address(text)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from None
        for key, text in self.public.items():
            if key not in listeners:
                raise ValueError(f"public.{key}: there is no such listener")
            if not is_somewhere(text):
                raise ValueError(f"public.{key}: no machine can connect to {text}")

    def listeners(self) -> dict[str, str]:
        """The addresses that are given, by key."""
        keys = ("peers", *FOR_CLIENTS, "admin", "log")
        return {key: text for key in keys if (text := getattr(self, key))}

    def hosts(self) -> frozenset[str]:
        """By which names and addresses it may be asked, in small letters."""
        texts = (*self.listeners().values(), *self.public.values())
        return frozenset(read_address(text).host.lower() for text in texts)

    def address(self, key: str) -> Address | None:
        text = self.listeners().get(key)
        return None if text is None else read_address(text)

    def reached_at(self, key: str) -> str:
        """Return the address at which others reach a listener; empty if there is none."""
        return self.public.get(key) or self.listeners().get(key, "")


class TlsSection(NetworkSection, frozen=True, kw_only=True):
    """Mutual TLS between brokers, as PEM files; a certificate is made out to its broker's name.

    authority     the certificate of the authority that signs those of all brokers
    certificate   this broker's, with `{broker}` in the file's name if one file serves all brokers
    key           its private key
    """

    authority: Text
    certificate: Text
    key: Text


class RuleSection(NetworkSection, frozen=True, kw_only=True):
    """Permissions of a user; all rules that fit count together.

    user        a name, `*` for all users, or empty for clients without a name
    publish     topic filters for publishing; %u is the user's name, %c the client's
    subscribe   topic filters for subscribing, in the same way
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


class HttpUsersSection(NetworkSection, frozen=True, kw_only=True):
    """Users that an HTTP service knows: it is asked about a client that no password file lists.
    It needs `pip install 'shoal[access]'`.

    url           the service's address, for POST; empty: no service
    authority     the authority that signs the service's certificate; else one that the system
                  trusts
    bearer_file   a file with the token that the broker shows the service
    timeout_s     an answer that takes longer counts as none: the client is refused (0x88)
    cache_s       an answer is reused for this long; 0: never
    """

    url: str = ""
    authority: str = ""
    bearer_file: str = ""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 5.0
    cache_s: Cost = 60.0

    def __post_init__(self) -> None:
        _check_url("url", self.url)


class TokensSection(NetworkSection, frozen=True, kw_only=True):
    """Users with signed tokens (JWT, RFC 7519) as passwords. One of the three keys says how they
    are signed. They need `pip install 'shoal[access]'`.

    key_file          a public key, as PEM (RS, PS and ES of 256 to 512 bits, EdDSA)
    secret_file       a secret of 32 bytes or more that signer and brokers share (HS256 to HS512)
    jwks_url          address of the signer's public keys, read anew every five minutes
    authority         the authority that signs that server's certificate; else one that the system
                      trusts
    audience          must be among those of the token
    issuer            must be the token's
    user              the claim with the user's name
    publish           the claim with topic filters for publishing, as in rules
    subscribe         the claim with topic filters for subscribing, as in rules
    ends_connections  a connection ends when its token does (0x87); else a token counts only when
                      its client connects
    """

    key_file: str = ""
    secret_file: str = ""
    jwks_url: str = ""
    authority: str = ""
    audience: str = ""
    issuer: str = ""
    user: Text = "sub"
    publish: Text = "publish"
    subscribe: Text = "subscribe"
    ends_connections: bool = True

    def __post_init__(self) -> None:
        _check_url("jwks_url", self.jwks_url)
        if sum(map(bool, (self.key_file, self.secret_file, self.jwks_url))) > 1:
            raise ValueError("give one of key_file, secret_file and jwks_url")

    @property
    def is_on(self) -> bool:
        return bool(self.key_file or self.secret_file or self.jwks_url)


def _check_url(key: str, url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if url and not (parts.scheme in ("http", "https") and parts.hostname):
        raise ValueError(f"{key}: {url!r} is no address such as https://users.example.org/mqtt")
    if parts.username is not None:  # it would be in the log
        raise ValueError(f"{key}: must not have a name or a password in it")


class AccessSection(NetworkSection, frozen=True, kw_only=True):
    """Authentication of clients, and their permissions. Without users and `anonymous`, no client is
    admitted.

    anonymous   clients without a user name
    passwords   a file made by `shoal password`
    origins     origins of web pages that may connect over WebSocket, besides the listener's own
                host (`https://app.example.org`; `*` is any origin). If clients need no user name,
                and without TLS, the listener's own host is an address or a name of the network file
    rules       users' permissions; without any, everything is permitted
    http        a service that knows users
    jwt         signed tokens that name users
    """

    anonymous: bool = False
    passwords: str = ""
    origins: tuple[str, ...] = ()
    rules: tuple[RuleSection, ...] = ()
    http: HttpUsersSection = HttpUsersSection()
    jwt: TokensSection = TokensSection()

    @property
    def knows_others(self) -> bool:
        """Return whether users may exist that no password file lists and that have no
        certificate.
        """
        return bool(self.http.url) or self.jwt.is_on


class ClientTlsSection(NetworkSection, frozen=True, kw_only=True):
    """For listeners over TLS.

    certificate   the brokers', as PEM
    key           its private key
    authority     if given, clients must have certificates that it signed, and the name in it is
                  the user's
    """

    certificate: Text
    key: Text
    authority: str = ""


class AdminSection(NetworkSection, frozen=True, kw_only=True):
    """Operators that may query and order brokers at their admin ports.

    certificate   the brokers', as PEM, with `{broker}` in the file's name if each has its own;
                  the ports speak HTTPS then
    key           its private key
    authority     for queries: the authority that signed the certificate, which is made out to the
                  broker's name; without it, one that the system trusts signed it, made out to its
                  host
    passwords     operators, a file made by `shoal password`; only /health and /ready are open to
                  all
    operator_authority   if given, a client with a certificate that it signed is the operator named
                         in the certificate, and needs no password
    orders        the operators that may also order (leave, stay, move, drain, undrain, rearrange,
                  delete sessions and retained messages); else all may
    open          other machines may reach ports that lack a certificate or operators (a network of
                  their own, or a proxy before them)
    """

    certificate: str = ""
    key: str = ""
    authority: str = ""
    passwords: str = ""
    operator_authority: str = ""
    orders: tuple[str, ...] = ()
    open: bool = False

    @property
    def is_over_tls(self) -> bool:
        return bool(self.certificate)

    @property
    def is_guarded(self) -> bool:
        """Return whether web pages cannot use the port: it has passwords or certificates."""
        return self.is_over_tls or self.knows_operators or self.open

    @property
    def knows_operators(self) -> bool:
        """Return whether requests must authenticate."""
        return bool(self.passwords or self.operator_authority)


class LinksSection(NetworkSection, frozen=True, kw_only=True):
    """Bounds of every link.

    window_bytes   sent and not handled; with a round trip of 100 ms, 4 MB allow 40 MB/s
    high_bytes     kept for the other end: from here on the link is full, and its sources wait
    low_bytes      it is not full any more
    limit_bytes    more is never kept: the link is given up
    silence_us     a connection on which nothing came for so long is dead
    give_up_us     a broker that is away for so long counts as gone; without, as its system says:
                   60 s, OctopiA 3 s, rings 10 s
    park_us        with `acknowledge = "stored"`: messages for a broker that is disconnected for so
                   long go to disk
    """

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


class StorageSection(NetworkSection, frozen=True, kw_only=True):
    """State of MQTT clients that brokers keep when they are stopped or killed; without a folder,
    none.

    folder   each broker has a folder of its name in it, unless {broker} is in the folder's own
    sync     when written bytes are made to outlast a power cut: never (the system decides), every
             second, or always, with each write; a killed broker loses nothing in any case

    acknowledge            when QoS 1 and 2 are acknowledged: settled (in the sessions of all their
                           subscribers), or stored (for subscribers behind a disconnected broker, on
                           the disk of the broker before it); with a folder and links, stored
    absent_s               stored: a broker that is disconnected for this long counts as gone
    maximum_absent_bytes   stored: one broker's space for disconnected neighbours; beyond this it
                           refuses
    """

    folder: str = ""
    sync: Sync = "second"
    acknowledge: Acknowledge | msgspec.UnsetType = msgspec.UNSET
    absent_s: Positive = 86_400
    maximum_absent_bytes: Positive = MAXIMUM_BYTES

    def folder_of(self, broker: BrokerId) -> Path | None:
        """Return the folder of a broker's state."""
        return own_folder(self.folder, broker) if self.folder else None


class LogSection(NetworkSection, frozen=True, kw_only=True):
    """Publications of their clients that brokers keep, to be read again; without a folder, none.

    folder        each broker has a folder of its name in it, unless {broker} is in the folder's own
    brokers       the brokers that keep a log; empty: all
    topics        topic filters of the publications that are kept
    qos           the least QoS of the publications that are kept
    keep_bytes    beyond this the oldest records are deleted
    keep_s        older records are deleted
    held_bytes    named readers that are behind hold back the deletion of this much more
    staged_bytes  rows of Spark's tasks that wait for their batch; beyond this they are refused
    sync          when written records are made to outlast a power cut, as in [storage]
    full          when the disk takes no record: "refuse" publications above QoS 0 (0x97), or "skip"
                  them in the log; a gap in the log says how many are missing
    """

    folder: str = ""
    brokers: tuple[BrokerId, ...] = ()
    topics: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("#",)
    qos: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    keep_bytes: Positive = 2**30
    keep_s: Positive = 7 * 86_400
    held_bytes: Annotated[int, msgspec.Meta(ge=0)] = 2**30
    staged_bytes: Annotated[int, msgspec.Meta(ge=0)] = 2**30
    sync: Sync = "second"
    full: Full = "refuse"

    def __post_init__(self) -> None:
        for pattern in self.topics:
            try:
                read_topic_filter(pattern)
            except TopicError as error:
                raise ValueError(f"topics: {error}") from None

    def folder_of(self, broker: BrokerId) -> Path | None:
        """Return the folder of a broker's log; None if it keeps none."""
        if not self.folder or (self.brokers and broker not in self.brokers):
            return None
        return own_folder(self.folder, broker)

    @property
    def policy(self) -> LogPolicy:
        """The records of the log, and their safety."""
        return LogPolicy(topics=self.topics, qos=self.qos, sync=self.sync, full=self.full)

    @property
    def settings(self) -> LogSettings:
        """The bounds of the log."""
        return LogSettings(
            keep_bytes=self.keep_bytes,
            keep_us=self.keep_s * 1_000_000,
            held_bytes=self.held_bytes,
            segment_bytes=min(MOST_SEGMENT_BYTES, max(1, self.keep_bytes // 8)),
        )


class CostsSection(NetworkSection, frozen=True, kw_only=True):
    """Costs of messages, in µs, for systems that choose their links by them.

    here    to process one at a broker; else it is measured
    links   to send one from one of two brokers to the other, as in {"B1-B2" = 3.0}: brokers that
            are no pair here may not be linked; without any all may be, and delays are measured
    """

    here: Cost | msgspec.UnsetType = msgspec.UNSET
    links: dict[str, Cost] = {}

    def costs_from(self, broker: BrokerId, brokers: Iterable[BrokerId]) -> dict[BrokerId, float]:
        """Return the costs of sending from a broker to each broker that it may be linked to."""
        found = {}
        for other in brokers:
            for key in (f"{broker}-{other}", f"{other}-{broker}"):
                if key in self.links and other != broker:
                    found[other] = self.links[key]
        return found


class ScalingSection(NetworkSection, frozen=True, kw_only=True):
    """Commands that start and end processes of brokers, for a system that adds and removes brokers
    by load (`bluedove.elasticity.spares`). They run at the broker that decides, without a shell;
    `{broker}` in a word stands for the broker's name. A command returns when the process is started
    or ended; any exit code but 0 is a failure.

    start          the program and its arguments that start a broker, with --join if it may have
                   left the network: ["systemctl", "start", "shoal@{broker}"]
    end            those that end its process after it has left, or when it did not become ready
    timeout_s      a command that runs longer is killed, and has failed
    by_supervisor  `shoal up` starts and ends the processes, and no command runs
    """

    start: tuple[Text, ...] = ()
    end: tuple[Text, ...] = ()
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    by_supervisor: bool = False

    @property
    def is_on(self) -> bool:
        return self.by_supervisor or bool(self.start and self.end)


class TraceSection(NetworkSection, frozen=True, kw_only=True):
    """Parquet files of events, for the pipeline.

    folder          their folder; without it none are written
    rows, seconds   when the next file is begun
    keep            files of each table that are kept, the oldest go
    """

    folder: str = ""
    rows: Positive = 100_000
    seconds: Positive = 60
    keep: Positive = 100
