"""Inquiries of targets whose source is silent: does it still export the session?

The source of an export asks until it learns the outcome (see `exporting`). It may also have
forgotten the export: its disk was lost, either broker was started on an older copy of its folder,
or the session ended there. Nothing more comes then, and without an answer the import would stay
open, and so would each export of the session from here, which a leave waits for.

| broker | hears or sees | does |
| --- | --- | --- |
| target | ARRIVING_US over without a control | TransferInquiry, to the source |
| asked, exports the session to that target | TransferInquiry | nothing: it reports the end itself |
| asked, owes that target a farewell after another import | TransferInquiry | TransferInquiry, to the source of that import |
| asked, neither | TransferInquiry | SessionDeparted |

A source that is down answers when it is back. A source that has left the network exports nothing
(`SessionImport.left`).
"""  # noqa: E501

from __future__ import annotations

from functools import partial

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    SessionDeparted,
    Transfer,
    TransferInquiry,
    encode_control,
)
from shoal.mqtt.federation.session_transfer.exporting import SessionExport
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.sessions.sessions import Sessions


class TransferInquiries:
    """The inquiries of one broker, and its answers."""

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        exports: SessionExport,
        front_end: FrontEnd,
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._exports = exports
        self._front_end = front_end
        # Inquiries that are still under way: more would only fill a link that is down.
        self._under_way: set[tuple[BrokerId, Transfer]] = set()

    def inquire(self, source: BrokerId, transfer: Transfer, now_us: int) -> None:
        """Ask the source of an import whether it still exports the session."""
        inquiry = source, transfer
        if not source or inquiry in self._under_way:
            return
        self._under_way.add(inquiry)
        body = encode_control(TransferInquiry(transfer, self._broker_id))
        self._front_end.notice(
            self._front_end.send(source, body, now_us), partial(self._on_inquiry_settled, inquiry)
        )

    def _on_inquiry_settled(self, inquiry: tuple[BrokerId, Transfer], _: int) -> None:
        self._under_way.discard(inquiry)

    def answer(self, inquiry: TransferInquiry, now_us: int) -> None:
        """Answer the target of an import."""
        transfer, target = inquiry.transfer, inquiry.broker
        client_id, at_us = transfer
        # Items of earlier exports may still wait for a time slice: the target asks again.
        if self._exports.is_sending or self._exports.is_exported(target, transfer):
            return
        session = self._sessions.get(client_id)
        for farewell in () if session is None else session.farewells:
            if (farewell.broker, farewell.at_us) == (target, at_us):
                if farewell.after_us is not None:
                    self.inquire(farewell.source, (client_id, farewell.after_us), now_us)
                return
        body = encode_control(SessionDeparted(transfer, self._broker_id))
        self._front_end.send(target, body, now_us)
