"""The brokers at which a client was before it connected somewhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shoal.model import BrokerId
from shoal.mqtt.federation.session_transfer.directory.announcing import ClientAnnouncements
from shoal.mqtt.federation.session_transfer.directory.registering import Registry
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionDirectory
from shoal.mqtt.sessions.sessions import Sessions


class FormerBrokers:
    """Those that one broker knows, as a registrar or by announcements.

    `entered` has the time and the broker of each client's last connection; `unheard` returns the
    brokers with missing lists after the start.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        registry: Registry,
        homes: SessionDirectory,
        entered: Mapping[str, tuple[int, BrokerId]],
        telling: ClientAnnouncements,
        unheard: Callable[[int], Sequence[BrokerId]],
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._registry = registry
        self._homes = homes
        self._entered = entered
        self._telling = telling
        self._unheard = unheard

    def place(self, client_id: str, asking: BrokerId) -> BrokerId | None:
        """The broker of a client before it connected at the asking one, as far as is known."""
        _, entered = self._entered.get(client_id, (0, None))
        if client_id in self._sessions and asking != self._broker_id:
            return self._broker_id
        for place in (self._registry.place(client_id), self._homes.get(client_id), entered):
            if place not in (None, asking, self._broker_id):
                return place
        return None

    def to_ask(self, client_id: str, former: BrokerId | None, now_us: int) -> list[BrokerId]:
        """Brokers that may know a connection of the client; none if there cannot be one."""
        registrars = self._telling.registrars(client_id)
        is_sure = self._broker_id in registrars and not self._unheard(now_us)
        if former is None and is_sure:
            return []
        others = [each for each in registrars if each not in (self._broker_id, former)]
        return others if former is None else [former, *others]
