"""A broker's settings of its links, and the check of the other end's identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from shoal.broker.links.controls import Hello, Purpose
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL, check_protocol
from shoal.broker.links.session import LinkSession
from shoal.broker.links.spool import Spool
from shoal.broker.wire import Codec, WireError
from shoal.model import BrokerId
from shoal.runtime.addresses import Address
from shoal.runtime.links.peer_connections import PeerConnection
from shoal.runtime.tls.contexts import TlsContexts


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's settings of its links.

    neighbours    the brokers it is linked to by the network file
    addresses     addresses of the network's brokers; brokers that join are added
    limits        bounds of each link
    tls           None: names are believed
    has_cycles    circular waits over full links are possible: neighbours are always read
    open_to_all   brokers open links to any others of the network themselves
    is_graceful   a neighbour that reconnects soon gets its tables; if False, the system decides
                  which state and messages a returning neighbour gets
    no_joiners    reason why no lasting link is accepted from an unknown broker, if so
    protocol      version of the link protocol
    """

    network: str
    neighbours: tuple[BrokerId, ...]
    addresses: Mapping[BrokerId, Address]
    incarnation: int
    limits: LinkLimits = LinkLimits()
    tls: TlsContexts | None = None
    has_cycles: bool = False
    open_to_all: bool = False
    is_graceful: bool = True
    no_joiners: str = ""
    protocol: int = PROTOCOL

    def session(
        self,
        broker: BrokerId,
        neighbour: BrokerId,
        codec: Codec,
        numbers: Iterator[int],
        purpose: Purpose = Purpose.LINK,
        *,
        is_graceful: bool = False,
        spool: Spool | None = None,
        opened_us: int | None = None,
    ) -> LinkSession:
        """One of the broker's (see `LinkSession`)."""
        return LinkSession(
            self.network,
            broker,
            neighbour,
            self.incarnation,
            codec,
            self.limits,
            purpose,
            is_graceful=is_graceful,
            spool=spool,
            numbers=numbers,
            opened_us=opened_us,
            protocol=self.protocol,
        )


def check_peer(
    connection: PeerConnection, hello: Hello, broker: BrokerId, settings: PeerSettings
) -> None:
    """WireError unless the other end is another broker of this network, as far as is known.

    With TLS it must have proved its name; and it must speak the same link protocol.
    """
    if hello.network != settings.network:
        raise WireError(f"this is network {settings.network!r}, not {hello.network!r}")
    if hello.broker == broker:
        raise WireError(f"{broker} has no link to broker {hello.broker!r}")
    if settings.tls is not None and hello.broker not in connection.certified_names():
        raise WireError(f"the certificate is not made out to {hello.broker!r}")
    check_protocol(broker, settings.protocol, hello.broker, hello.protocol)
