"""What a broker says that is asked what became of a session which another has sent it.

It has it (`Adopted`, once every broker knows the subscriptions), needs nothing more of it
(`Taken`), or never got it (`Declined`).
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Adopted, Control, Declined, Departed, Offer, Taken
from shoal.mqtt.federation.roaming.arriving import Arriving
from shoal.mqtt.federation.roaming.fetching import Fetching
from shoal.mqtt.federation.roaming.whereabouts.homes import Homes
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.sessions.sessions import Sessions


class Receipts:
    """One broker's part.  `say` sends a word to a broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        homes: Homes,
        fetching: Fetching,
        arriving: Arriving,
        say: Callable[[str, Control, int], None],
    ) -> None:
        self.journal: Journal | None = None
        self._broker_id = broker_id
        self._sessions = sessions
        self._homes = homes
        self._fetching = fetching
        self._arriving = arriving
        self._say = say

    def answer(self, control: Offer | Departed, now_us: int) -> None:
        """Another broker asks what became of a session that it has sent."""
        journey, broker = control.journey, control.broker
        client_id, at_us = journey
        journal = self.journal
        if journal is not None and journal.is_failing:
            return  # it is on no disk; the other asks again
        move = self._arriving.get(journey)
        if move is not None:
            if isinstance(control, Departed):
                # Taken is said when it is asked again: by then it is written.
                self._arriving.close(journey, now_us)
            else:
                self._arriving.heard(move, now_us)
                if move.is_spread:
                    self._say(broker, Adopted(journey), now_us)
            return
        if self._fetching.journey(client_id) == journey:
            return
        session, home = self._sessions.get(client_id), self._homes.entry(client_id)
        had_us = session.entered_us if session is not None else home.had_us if home else 0
        declined = Declined(journey, self._broker_id)
        self._say(broker, Taken(journey) if had_us >= at_us else declined, now_us)
