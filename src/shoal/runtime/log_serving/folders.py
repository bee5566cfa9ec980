"""Gives a folder's log to readers without a broker.

For a broker that has left, or that does not run: its records can be read, and its readers move on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from shoal.log.publication_log import LogSettings, PublicationLog
from shoal.log.segments import read_heading
from shoal.runtime.addresses import Address
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.front_ends.entry.access import NetworkAccess
from shoal.runtime.log_serving.access import LogAccess
from shoal.runtime.log_serving.pages import LogPages, LogServer
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import AccessSection
from shoal.runtime.tls.certificates import Certificates


class FolderSource:
    """A log that does not grow."""

    def __init__(self, log: PublicationLog) -> None:
        self.log = log
        self._clock = Clock()

    def reached_us(self) -> int:
        """Now: there will be no later record."""
        return self._clock.now_us()

    async def news(self, within_s: float) -> None:
        """Return after this time."""
        await asyncio.sleep(within_s)


async def serve_folder(
    folder: Path, where: Address, network: NetworkFile | None, stop: asyncio.Event
) -> None:
    """Serve until `stop` is set; prints the address.

    Without a network file everybody on this machine may read. LogError, TlsError, AccessError,
    OSError where files or the address cannot be used; ValueError for an address that other machines
    reach, without a network file.
    """
    if network is None and not where.is_loopback:
        raise ValueError(
            f"{where} is open to other machines; name the users by --network NETWORK.toml"
        )
    heading = read_heading(folder)
    log = PublicationLog(folder, heading.network, heading.broker, LogSettings(), Clock().now_us())
    try:
        section = network.access if network is not None else AccessSection(anonymous=True)
        access = NetworkAccess(section)
        tls = Certificates(network, heading.broker).clients if network is not None else None
        is_guarded = tls is not None or not section.anonymous
        readers = LogAccess(lambda: access, [where.host], is_guarded=is_guarded)
        json = network.json if network is not None else "auto"
        source = FolderSource(log)
        pages = LogPages(source, readers, source.reached_us, dict, json)
        server = LogServer(pages, lambda *_: None, tls)
        address = await server.start(where)
        print(f"{heading.broker} log {address}", flush=True)
        await stop.wait()
        await server.stop()
        await access.close()
    finally:
        log.close()
