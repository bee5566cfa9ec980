"""A client that wants to be let in: what its CONNECT asks for, and what is answered."""

from __future__ import annotations

import msgspec

from shoal.model import Filter
from shoal.mqtt.access import ANOTHER_USERS, Admission, Credentials
from shoal.mqtt.broker_topics import is_bridge_state, is_brokers_own
from shoal.mqtt.codec.errors import MqttError
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connack, Connect
from shoal.mqtt.codec.properties import NO_PROPERTIES
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.connecting import agree, connack_properties, read_promises
from shoal.mqtt.connection.house import Guest, House
from shoal.mqtt.sessions.delivering.outgoing import ClientOutlet


class Entering:
    """One client's, until it is let in or refused; `terms` are what is agreed."""

    def __init__(self, house: House, connect: Connect, known: Credentials) -> None:
        self.connect = connect
        self.terms = agree(connect, house.limits)
        self.credentials = msgspec.structs.replace(
            known,
            client_id=connect.client_id,
            username=connect.username,
            password=connect.password,
        )
        self._house = house
        # What it advertises, once it is admitted.
        self._promises: tuple[Filter, ...] = ()

    def judged(self, admission: Admission) -> Admission:
        """The answer of who decides, or another one that refuses what is asked for."""
        connect = self.connect
        if admission.reason_code is not ReasonCode.SUCCESS:
            return admission
        try:
            self._promises = read_promises(connect, self._house.limits)
        except MqttError as error:
            return Admission(error.reason_code, reason=str(error))
        # A bridge whose rules leave out its state is let in all the same, as mosquitto does: they
        # are asked again when its will is to be published.
        if connect.will is not None and not is_bridge_state(connect.will.topic):
            topic = connect.will.topic
            if is_brokers_own(topic) or not admission.permissions.may_publish(topic):
                reason = f"no permission for the will on {topic!r}"
                return Admission(ReasonCode.NOT_AUTHORIZED, reason=reason)
        if self._house.sessions.is_anothers(connect.client_id, admission.user):
            return Admission(ReasonCode.NOT_AUTHORIZED, reason=ANOTHER_USERS)
        no_room = self._house.no_room_for(connect.client_id, admission.user, connect.will)
        if no_room:
            return Admission(ReasonCode.QUOTA_EXCEEDED, reason=no_room)
        return admission

    def let_in(self, admission: Admission, outlet: ClientOutlet) -> Guest:
        """The client as it is let in; its password is needed no more."""
        self.credentials = msgspec.structs.replace(
            self.credentials, password=None, known=admission.known
        )
        client_id = self.connect.client_id or self._house.new_client_id()
        return Guest(self.connect, client_id, admission.user, self.terms, self._promises, outlet)

    def connack(self, client_id: str, *, present: bool) -> Connack:
        """What tells the client that it is let in."""
        properties = NO_PROPERTIES
        if self.connect.version == MQTT_5:
            limits = self._house.limits
            properties = connack_properties(self.connect, client_id, self.terms, limits)
        return Connack(ReasonCode.SUCCESS, present, properties)
