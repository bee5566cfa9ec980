"""Answers to the source of a session that asks for the outcome of its export.

The target has it (`SessionAdopted`, once every broker knows the subscriptions), has all of it
(`TransferComplete`), or never got it (`TransferDeclined`).
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    Control,
    Offer,
    SessionAdopted,
    SessionDeparted,
    TransferComplete,
    TransferDeclined,
)
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionDirectory
from shoal.mqtt.federation.session_transfer.fetching import Fetching
from shoal.mqtt.federation.session_transfer.importing import SessionImport
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.sessions.sessions import Sessions


class Receipts:
    """The answers of one broker. `send` sends a control to a broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        homes: SessionDirectory,
        fetching: Fetching,
        arriving: SessionImport,
        send: Callable[[str, Control, int], None],
    ) -> None:
        self.journal: SessionJournal | None = None
        self._broker_id = broker_id
        self._sessions = sessions
        self._homes = homes
        self._fetching = fetching
        self._arriving = arriving
        self._send = send

    def answer(self, control: Offer | SessionDeparted, now_us: int) -> None:
        """Answer the source of an exported session."""
        transfer, broker = control.transfer, control.broker
        client_id, at_us = transfer
        journal = self.journal
        if journal is not None and journal.is_failing:
            return  # the session is not on the disk; the source asks again
        move = self._arriving.get(transfer)
        if move is not None:
            if isinstance(control, SessionDeparted):
                # TransferComplete follows the next question: by then the session is recorded.
                self._arriving.close(transfer, now_us)
            else:
                self._arriving.heard(move, control, now_us)
                if move.is_spread:
                    self._send(broker, SessionAdopted(transfer), now_us)
            return
        if self._fetching.transfer(client_id) == transfer:
            return
        session, home = self._sessions.get(client_id), self._homes.entry(client_id)
        had_us = session.entered_us if session is not None else home.had_us if home else 0
        declined = TransferDeclined(transfer, self._broker_id)
        self._send(broker, TransferComplete(transfer) if had_us >= at_us else declined, now_us)
