"""Parts of a broker of a network file that it has only where the file asks for them."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from shoal.broker.links.controls import BrokerLocation
from shoal.log.publication_log import PublicationLog
from shoal.model import BrokerId
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.addresses import is_somewhere
from shoal.runtime.front_ends.entry.access import NetworkAccess
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.links.directory import Directory
from shoal.runtime.log_serving.access import LogAccess
from shoal.runtime.log_serving.pages import LogPages, LogServer
from shoal.runtime.log_serving.staging_area import StagingArea
from shoal.runtime.log_serving.staging_pages import StagingPages
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import BrokerSection, TraceSection
from shoal.runtime.node import Node
from shoal.runtime.storage.journal_files import JournalFiles
from shoal.runtime.storage.log_writer import LogPolicy
from shoal.runtime.storage.spool_files import Spools, SpoolSettings, check_formats, waits_for

if TYPE_CHECKING:
    from shoal.runtime.operations.trace_writer import TraceWriter

_log = logging.getLogger(__name__)


def servers(where: BrokerLocation) -> dict[str, str]:
    """Return the listeners to which clients can be redirected: those with a definite address."""
    if where.has_left:
        return {}
    # Another broker's entry may be malformed.
    return {kind: text for kind, text in where.front_ends.items() if is_somewhere(text)}


def places(network: NetworkFile, name: BrokerId, now_us: int) -> Iterator[BrokerLocation]:
    """Make directory entries from the network file; the own broker's entry has the current time."""
    for broker in network.brokers:
        at_us = now_us if broker.name == name else 0
        listeners: dict[str, Any] = {key: broker.reached_at(key) for key in broker.listeners()}
        yield BrokerLocation(broker.name, at_us, **listeners)


def journal_files(network: NetworkFile, name: BrokerId) -> JournalFiles | None:
    """Return the journal of a broker with clients; each has a folder of its own in the
    network's.
    """
    folder = network.storage.folder_of(name)
    return None if folder is None else JournalFiles(folder, network.name, name)


def publication_log(
    network: NetworkFile, name: BrokerId, now_us: int
) -> tuple[PublicationLog, LogPolicy] | None:
    """Return the log of a broker whose file asks for one; LogError if its folder cannot be used."""
    section = network.log
    folder = section.folder_of(name)
    if folder is None:
        return None
    return PublicationLog(folder, network.name, name, section.settings, now_us), section.policy


def staging_area(
    network: NetworkFile, section: BrokerSection, front_end: MqttFrontEnd
) -> StagingArea | None:
    """Return the staging area of a broker that gives its log to readers."""
    if front_end.log is None or not section.log:
        return None
    return StagingArea(front_end, front_end.log, network.log.staged_bytes)


def log_server(
    network: NetworkFile,
    section: BrokerSection,
    front_end: MqttFrontEnd,
    staging: StagingArea | None,
    access: Callable[[], NetworkAccess],
    garbled: Callable[..., None],
    context: ssl.SSLContext | None,
    directory: Directory,
) -> LogServer | None:
    """Return the server of a broker's log, if it keeps one and listens for readers."""
    if front_end.log is None or staging is None:
        return None
    is_guarded = context is not None or not network.access.anonymous
    readers = LogAccess(access, section.hosts(), is_guarded=is_guarded)

    def others() -> dict[str, str]:
        return {each.name: each.log for each in directory.places if each.log and not each.has_left}

    clock = front_end.node.clock
    rows = StagingPages(staging)
    pages = LogPages(front_end.log, readers, clock.now_us, others, network.json, rows)
    return LogServer(pages, garbled, context)


def spools(
    network: NetworkFile, name: BrokerId, files: JournalFiles | None, node: Node
) -> Spools | None:
    """Return the spools for disconnected neighbours; this process holds the folder's lock."""
    if files is None:
        return None
    check_formats(files.folder)
    if network.acknowledge != "stored":
        if not waits_for(files.folder):
            return None
        _log.warning("storage.acknowledge: stored until what was is sent", extra={"broker": name})
    storage = network.storage
    settings = SpoolSettings(
        folder=files.folder,
        sync=storage.sync,
        maximum_bytes=storage.maximum_absent_bytes,
        keep_us=storage.absent_s * 1_000_000,
    )
    return Spools(node, settings, SYSTEMS[network.system].placeholder)


def trace_writer(section: TraceSection, name: BrokerId, now_us: int) -> TraceWriter | None:
    """Return the writer of the trace; a broker without trace needs no Parquet."""
    if not section.folder:
        return None
    from shoal.runtime.operations.trace_writer import TraceWriter

    return TraceWriter(section, name, now_us)
