"""One broker of a network file, whole: its machine, links, MQTT clients, admin port and trace.

Starts in an order in which nothing is promised too early (the admin port first, so that it can
say what is missing; clients last) and stops in an order in which nothing is cut short: no new
clients, a goodbye to those that are there, then what is still under way to the neighbours, then
the links.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from shoal import language
from shoal.broker.effects import Started
from shoal.broker.links.controls import CONTROLS, BrokerLocation
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.machine import Broker
from shoal.broker.wire import COMMON, Codec
from shoal.ledger import Ledger
from shoal.model import BrokerId
from shoal.mqtt.admission import QUEUES_ARE_FULL
from shoal.mqtt.federation.moving import DRAINED
from shoal.mqtt.messages import PublishedMessage
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.events.broker_events import BrokerEvents, about_broker
from shoal.runtime.forgetting import Forgetting
from shoal.runtime.front_ends.entry.access import NetworkAccess
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd, Permitted
from shoal.runtime.front_ends.publishers import LivePublishers
from shoal.runtime.front_ends.sockets.websocket import is_same_host
from shoal.runtime.hosts import is_own_host
from shoal.runtime.leaving import Leaving
from shoal.runtime.links.costs import LinkCosts
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.forwarding_channels import ForwardingChannels
from shoal.runtime.links.joining import JoinAttempt, NetworkJoining
from shoal.runtime.links.membership import NetworkMembership
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.links.peer_settings import PeerSettings
from shoal.runtime.links.probing import Probes
from shoal.runtime.listeners import Listeners
from shoal.runtime.network_file import NetworkFile, changed_keys
from shoal.runtime.node import Node
from shoal.runtime.operations.admin import AdminServer, Page
from shoal.runtime.operations.admin_access import AdminAccess
from shoal.runtime.operations.discovery import targets
from shoal.runtime.operations.exceptions import Exceptions
from shoal.runtime.operations.memory import memory_of
from shoal.runtime.operations.status_parts import mqtt_status, version
from shoal.runtime.operator import OperatorDesk
from shoal.runtime.parts import (
    journal_files,
    log_server,
    places,
    publication_log,
    servers,
    spools,
    staging_area,
    trace_writer,
)
from shoal.runtime.process_commands import ProcessCommands
from shoal.runtime.questions import AdminQuestions
from shoal.runtime.readiness import Readiness, down_links, has_needed_links
from shoal.runtime.reloading import People, changed_files, changes
from shoal.runtime.retained import Retained
from shoal.runtime.storage.clock_file import ClockFile
from shoal.runtime.storage.log_writer import keeping
from shoal.runtime.storage.overlay_file import OverlayFile
from shoal.runtime.tls.certificates import Certificates
from shoal.runtime.tracing.tracer import Tracer

# A stopping broker waits this long for its neighbours to take its queued messages.
DRAIN_S = 5.0

_log = logging.getLogger(__name__)


class BrokerService:
    """The broker `name` of a network; TlsError, AccessError, JournalError, LogError when its files
    cannot be used.
    """

    def __init__(
        self, network: NetworkFile, name: BrokerId, joins: Sequence[JoinAttempt] = ()
    ) -> None:
        """`joins`: it is new, and joins the network over one of these, or another that it knows."""
        self.network = network
        self.section = network.broker(name)
        # the keys that the last reload has changed
        self.changed: list[str] = []
        self._started_s = time.monotonic()
        self.exceptions = Exceptions()
        system = SYSTEMS[network.system]
        files = journal_files(network, name)
        self._clock_file = None if files is None else ClockFile(files.folder)
        clock = Clock() if self._clock_file is None else self._clock_file.clock
        self.trace = trace_writer(network.trace, name, clock.now_us())
        overlay = self._overlay = OverlayFile(files.folder if files is not None else None)
        given = network.neighbours(name)
        self.directory = Directory(name, places(network, name, clock.now_us()), overlay)
        self.joining = NetworkJoining(name, given, joins, overlay, self.directory, clock)
        # A broker that is to join learns its links before it starts.
        links = () if self.joining.is_asking else overlay.expected(given)
        founder = overlay.is_founder and not self.joining.is_asking
        machine = Broker(
            name, (), network.factory, network.seed, links, joins=True, is_founder=founder
        )
        limits, has_cycles = network.bounds, system.shape.has_cycles
        admits_bytes = limits.high_bytes if has_cycles else None
        self.node = Node(machine, clock, self.trace, admits_bytes, system.shown_rows)
        self.node.asides.at_remember = overlay.remember
        codec = Codec(COMMON + CONTROLS + system.messages)
        self._certificates = Certificates(network, name)
        # A broker without a network is all there is: the machine has nothing to add.
        networked = self._is_networked = bool(
            len(network.brokers) > 1
            or network.grows
            or self.trace is not None
            or overlay.links
            or self.joining.stage
        )
        settings = PeerSettings(
            network=network.name,
            neighbours=given,
            addresses=self.directory.addresses,
            incarnation=time.time_ns(),
            limits=limits,
            tls=self._certificates.links,
            has_cycles=has_cycles,
            open_to_all=system.shape.opens_links or system.shape.mends,
            is_graceful=not system.shape.opens_links,
            no_joiners=network.no_joiners or ("" if networked else _alone(name)),
        )
        probes = self._probes = Probes(name, settings, clock)
        self.spools = spools(network, name, files, self.node)
        self.links = PeerLinks(self.node, codec, settings, self.spools, overlay, self.directory)
        self._membership = NetworkMembership(
            self.node,
            self.links,
            self.directory,
            self.joining,
            probes,
            is_leaving=lambda: bool(self.leaving.stage),
        )
        self._costs = LinkCosts(self.node, network.costs, self.links, self.directory, probes)
        self._access = NetworkAccess(network.access)
        self._servers = {
            where.name: found for where in self.directory.places if (found := servers(where))
        }
        self.directory.at_change.append(self._is_elsewhere)
        self.forwarding_channels = ForwardingChannels(self.node, settings)
        self.links.forwarding_channels = self.forwarding_channels
        self.publishers = LivePublishers(self.node, self.forwarding_channels)
        self.front_end = MqttFrontEnd(
            self.node,
            network.limits,
            self._access,
            networked=networked,
            publishers=self.publishers if networked else None,
            servers=self._servers,
            files=files,
            sync=network.storage.sync,
            log=publication_log(network, name, clock.now_us()),
            json=network.json,
            moves_subscribers=system.moves_subscribers(network.system_parameters),
            has_cycles=has_cycles,
        )
        if self.front_end.clients.federation is not None:
            starting = self.front_end.clients.federation.session_transfer.starting
            starting.others, starting.is_connected = self._others, self.links.is_connected
        if network.log.folder:
            self.front_end.clients.replays.brokers = self._logs
            self.front_end.clients.replays.keeps = keeping(network.log.policy)
        if has_cycles and self.front_end.clients.front_end is not None:
            self.front_end.clients.front_end.waits_for_links = lambda: self.links.is_waiting
        if self.spools is not None:
            self.spools.at_full = self.front_end.clients.refuse
        self.forgetting = Forgetting(self.node, self.links, self.directory)
        # Told that the broker has left its network for good: its process is to end.
        self.at_left: Callable[[], None] = _ignore_change
        self.leaving = Leaving(
            self.node,
            self.front_end,
            self.links,
            self.forwarding_channels,
            self.directory,
            self.forgetting,
            self._servers,
            self._has_left,
            network.no_joiners,
            lambda: self._listeners.readmit_clients(),
        )
        self.processes = ProcessCommands(network.scaling, self.node.bring, clock.now_us())
        self.node.asides.at_process = self.processes.follow
        self.node.asides.at_leave_order = self.leaving.follow
        self.ledger = Ledger()
        self.front_end.register(self.ledger)
        self.links.register(self.ledger)
        self._access.register(self.ledger)
        retained = Retained(self.front_end)
        self.operator = OperatorDesk(self.front_end, self.leaving, self.forgetting, retained)
        questions: dict[str, Page] = {
            **AdminQuestions(self.front_end, network.json).by_name,
            "retained": retained.page,
            "leave-plan": self.operator.leave_plan,
            "top": self.front_end.traffic.heaviest,
            "round-trips": self._costs.round_trips,
            "try": self.front_end.traffic.samples.try_filter,
            "prometheus/targets": self._targets,
        }
        notices = self.front_end.clients.statistics.notices
        self.events = BrokerEvents(
            self.figures,
            partial(about_broker, name, self.section.place or None),
            self.links,
            self.front_end.traffic.latencies,
            self.front_end.clients.backlog,
            clock.now_us,
            settings.incarnation,
        )
        self.tracer = Tracer(self.front_end.clients, network.json, clock.now_us)
        self.tracer.register(self.ledger)
        self.front_end.clients.tracer = self.tracer
        self.front_end.clients.backlog.at_drop = self._dropped
        self.node.at_traced = self.tracer.handled
        questions["traces"] = self.tracer.traces
        self.node.rows.at_happening = self.events.happened
        self.front_end.at_notice(self.events.noticed)
        self.directory.at_change.append(self.events.located)
        self._admin_access = AdminAccess(
            network.admin, self.section.hosts(), notices, self.node.schedule_flush
        )
        self.admin = AdminServer(
            self.status,
            self.figures,
            self.readiness,
            {**self.operator.orders, "trace": self.tracer.order},
            questions,
            self._admin_access,
            self.events.stream,
            self._certificates.admin,
        )
        self.staging = staging_area(network, self.section, self.front_end)
        if self.staging is not None:
            self.leaving.commits = self.staging.lists.committing
            self.staging.register(self.ledger)
        self.log_server = log_server(
            network,
            self.section,
            self.front_end,
            self.staging,
            lambda: self._access,
            self._admin_access.garbled,
            self._certificates.clients,
            self.directory,
        )
        self._listeners = Listeners(
            self.section,
            self.admin,
            self.log_server,
            self.links,
            self.front_end,
            self._certificates,
            self._allows,
        )
        self.listening = self._listeners.listening

    async def start(self) -> None:
        """Listen everywhere; OSError, naming the listener, where that cannot be.

        All addresses are bound before anything is written, or a link is opened.
        """
        language.prepare()  # no client's first filter holds the broker meanwhile
        self._listeners.bind()
        await self._listeners.listen("admin")
        self.events.start()
        if self.joining.stage == "left":
            _log.error(self.joining.problem, extra={"next": "start it with --join"})
            return
        sponsor = await self.joining.find(self._probes) if self.joining.is_asking else None
        if sponsor is not None:
            self.node.machine.expect(self._overlay.expected(self.network.neighbours(self.node.id)))
        if self._clock_file is not None:
            self._clock_file.start()
        if self.trace is not None:
            self.trace.start()
        former = self.front_end.journal.neighbours if self.front_end.journal is not None else ()
        expected = self._overlay.awaited(former)
        started = Started(expected, self.network.bounds.give_up_us, self._overlay.facts)
        self.node.start(started)
        federation = self.front_end.clients.federation
        if federation is not None:
            federation.joining.is_joining = bool(self.joining.stage)
            for where in self.directory:
                if where.has_left:
                    now_us = self.node.clock.now_us()
                    federation.left(where.name, now_us, is_dead=where.was_declared_dead)
        self.front_end.start()  # neighbours ask for the subscriptions of local clients
        if self.staging is not None:
            self.staging.start()
        if self.joining.stage:
            self.links.no_joiners["join"] = f"{self.node.id} has not joined yet"
        await self._listeners.listen("peers", "log")
        self._membership.start()
        if self.spools is not None:
            self.spools.start()
        self.forwarding_channels.start()
        if sponsor is not None:
            await self.joining.linked(sponsor, lambda: self.links.away)
        if self.joining.stage:
            await self.joining.answered(self._is_answered, lambda: self.links.neighbours)
            self.links.no_joiners["join"] = ""
            self.front_end.joined()
        if self.node.machine.is_leaving:
            self.leaving.resume()
        else:
            await self._listeners.admit_clients()
        if self._is_networked:
            self._membership.rejoin()
        for stranger in self.network.strangers(where.name for where in self.directory.places):
            _log.warning("a parameter names a broker that is not there", extra={"what": stranger})
        _log.info("started", extra={key: str(where) for key, where in self.listening.items()})

    async def _targets(self, _query: Mapping[str, str]) -> list[dict[str, Any]]:
        own = self.listening.get("admin")
        return targets(self.network, self.directory.places, self.node.id, own)

    def _others(self) -> list[BrokerId]:
        """Return the other brokers of the network that accept clients."""
        takers = [where.name for where in self.directory.places if where.front_ends]
        return [name for name in takers if name != self.node.id] if self.node.id in takers else []

    def _logs(self) -> list[BrokerId]:
        """Return the brokers of the network that accept clients and keep a log."""
        keep = self.network.log.brokers
        takers = [where.name for where in self.directory.places if where.front_ends]
        return [name for name in takers if not keep or name in keep]

    def _is_answered(self) -> bool:
        """Return whether a member has answered this one through the system, and reported retained
        messages.
        """
        system = SYSTEMS[self.network.system]
        parameters = self.network.system_parameters or system.parameters()
        # The MQTT side of a broker without clients asks nothing.
        return self.front_end.is_told or not system.takes_clients(parameters, self.node.id)

    def reload(self, network: NetworkFile) -> list[str]:
        """Take over users, operators, rules, origins, limits and certificates of the file as it is.

        `changed` says then what that was; the keys that differ besides are returned: they take a
        restart.  TlsError, AccessError when files cannot be used; nothing is changed then.
        """
        # All is tried before anything is changed.
        access = NetworkAccess(network.access, self._access)
        tables = self._certificates.renewable(network)
        before, people = self.network, self._people
        if "admin" in tables:
            self._admin_access.renew(network.admin)
        authorities, files = self._certificates.authorities, self._certificates.digests
        self._certificates.renew(tables)
        tables |= {"access": network.access, "limits": network.limits}
        former, self._access = self._access, access
        access.register(self.ledger)
        permissions: Permitted = partial(former.renewed, access)
        if self._certificates.authorities.lacks_some_of(authorities):
            permissions = self.front_end.certified(
                self._certificates.authorities.signed, permissions
            )
        self.front_end.renew(network.limits, access, permissions)
        self._closing = asyncio.ensure_future(former.close(after=access))
        self.network = msgspec.structs.replace(self.network, **tables)
        self.changed = changes(before, self.network, people, self._people)
        self.changed += changed_files(files, self._certificates.digests)
        return changed_keys(self.network, network)

    @property
    def _people(self) -> People:
        return People(self._access.users, self._admin_access.operators)

    def _dropped(self, client: str, message: PublishedMessage, why: str) -> None:
        self.events.dropped(client, message, why)
        if message.traced:
            self.tracer.dropped(client, message, why)

    def _has_left(self) -> None:
        self._overlay.leave(self.node.clock.now_us())
        self.at_left()

    def _is_elsewhere(self, where: BrokerLocation) -> None:
        """A broker has joined, moved or left."""
        found = servers(where)
        if found:
            self._servers[where.name] = found
        else:
            self._servers.pop(where.name, None)
        federation, now_us = self.front_end.clients.federation, self.node.clock.now_us()
        if federation is not None:
            if where.has_left:
                federation.left(where.name, now_us, is_dead=where.was_declared_dead)
            else:
                federation.came(where.name, now_us)
            self.front_end.carry_out(self.front_end.clients.take_effects())
            self.node.schedule_flush()
        _log.info(
            f"broker {'left' if where.has_left else 'joined'}",
            extra={"name_of_broker": where.name, "peers": where.peers},
        )

    def _allows(self, listener: str, origin: str, host: str) -> bool:
        """Return whether web pages of an origin may connect to a listener under this host."""
        access = self.network.access
        if "*" in access.origins or origin in access.origins:
            return True
        # A name that its owner has made mean this machine has no certificate, nor a password.
        is_guarded = listener == "wss" or not access.anonymous
        is_own = is_guarded or is_own_host(host, self.section.hosts())
        return is_own and is_same_host(origin, host)

    async def stop(self) -> None:
        """Drain and close."""
        self.events.stop()
        self._listeners.close()
        self.operator.stop()
        if self.staging is not None:
            await self.staging.stop()
        await self.leaving.stop()
        await self._membership.stop()
        await self.forgetting.stop()
        await self.processes.stop()
        await self._costs.stop()
        self.front_end.shut_down()
        self.node.flush()
        try:
            async with asyncio.timeout(DRAIN_S):
                await self.forwarding_channels.drained()
                await self.links.drained()
        except TimeoutError:
            _log.warning("stopped before all neighbours had taken everything")
        await self.forwarding_channels.stop()
        await self.links.stop()
        self.publishers.stop()
        if self.spools is not None:
            await self.spools.stop()
        if self._clock_file is not None:
            self._clock_file.stop()
        if self.front_end.journal is not None:
            await self.front_end.journal.stop()
        if self.log_server is not None:
            await self.log_server.stop()
        if self.front_end.log is not None:
            await self.front_end.log.stop()
        self.node.stop()
        if self.trace is not None:
            await self.trace.stop()
        await self._access.close()
        await self.admin.stop()
        _log.info("stopped")

    # --- status and metrics ------------------------------------------------------------------

    def missing(self) -> list[str]:
        """Return what this broker lacks: reasons why it is not ready, and links that are down."""
        return self.readiness().missing

    def readiness(self) -> Readiness:
        """Return whether `/ready` is answered with 200, and what this broker lacks."""
        if self.joining.stage == "left":
            return Readiness(False, [self.joining.problem])
        members = [each for each in (self.joining.problem, self._membership.problem) if each]
        others = self._other_lacks()
        links = self.links.status()
        is_starting = 1e6 * self._uptime_s < self.network.bounds.give_up_us
        is_ready = not members and not others and has_needed_links(links, is_starting=is_starting)
        return Readiness(is_ready, members + down_links(links) + others)

    @property
    def _uptime_s(self) -> float:
        return time.monotonic() - self._started_s

    def _other_lacks(self) -> list[str]:
        found = []
        awaited = ", ".join(self.node.machine.awaited)
        if awaited or not self.node.is_ready:
            found.append(f"tables of {awaited or 'neighbours'}")
        if self.front_end.journal is not None and self.front_end.journal.status["is_failing"]:
            found.append("a disk that takes the journal")
        if self.front_end.clients.refusal:
            found.append(f"room on disk: {self.front_end.clients.refusal}")
        if self.front_end.clients.backlog.is_full:
            found.append(f"room: {QUEUES_ARE_FULL}")
        if self.operator.is_draining:
            found.append(f"clients: {DRAINED}")
        found += [f"listener {key}" for key in self._listeners.keys if key not in self.listening]
        return found

    def _links_status(self) -> list[dict[str, Any]]:
        now_us, congested = self.node.clock.now_us(), self.node.machine.congested
        return [
            row | {"congested_us": max(0, now_us - congested.get(row["neighbour"], now_us))}
            for row in self.links.status()
        ]

    def status(self) -> Mapping[str, Any]:
        """Return the content of `shoal status`: figures, alerts, and a row for each publisher and
        for the clients that lose or wait most.
        """
        figures = self.figures()
        return {
            **figures,
            "alerts": self.events.alerts(figures),
            "worst_clients": self.events.worst_clients(),
            "publishers": self.publishers.status(),
        }

    def figures(self) -> Mapping[str, Any]:
        """Return the figures of the metrics; their number does not depend on the number of
        publishers.
        """
        is_ready, missing = self.readiness()
        tables = dict(self.node.machine.description)
        if not self._is_networked:
            tables["subscriptions"] = self.front_end.clients.subscriptions.count
        return {
            "broker": self.node.id,
            "network": self.network.name,
            "system": self.network.system,
            "version": version(),
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "uptime_s": round(self._uptime_s, 3),
            "ready": is_ready,
            "missing": missing,
            "listening": {key: str(where) for key, where in self.listening.items()},
            "links": self._links_status(),
            "certificates": self._certificates.endings,
            "brokers": [
                {"broker": each.name, "mqtt": each.mqtt, "admin": each.admin}
                for each in self.directory.places
            ],
            "joining": self.joining.status(),
            "leaving": self.leaving.status(),
            "forgetting": self.forgetting.status(),
            "scaling": msgspec.to_builtins(self.node.machine.scaling),
            "processes": self.processes.status,
            "clients": self.operator.status(),
            "is_holding": self.node.is_holding,
            "tables": tables,
            "mqtt": mqtt_status(self.front_end.clients),
            "memory": memory_of(self.ledger, self.front_end.clients),
            "latency": self.front_end.traffic.latencies.status(self.node.clock.now_us()),
            "exceptions": self.exceptions.status(),
            "journal": self.front_end.journal.status
            if self.front_end.journal is not None
            else None,
            "replays": self.front_end.clients.replays.status,
            "log": self.front_end.log.status if self.front_end.log is not None else None,
            "staged": self.staging.status if self.staging is not None else None,
            "forwarding_channels": self.forwarding_channels.status(),
            "counts": dict(self.node.counts),
            "service_us": self.node.watching.handled_in_us or None,
            "shown": {
                name: [msgspec.structs.asdict(row) for row in rows]
                for name, rows in self.node.rows.shown.items()
            },
        }


def _ignore_change() -> None:
    """Placeholder until a listener is set."""


def _alone(name: BrokerId) -> str:
    return f"{name} is alone in its network file; set grows = true there and start {name} again"
