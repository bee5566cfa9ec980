"""The CONNECT of one client, from its check to the CONNACK."""

from __future__ import annotations

import msgspec

from shoal.model import Filter
from shoal.mqtt.access import ANOTHER_USERS, ClientAdmission, ClientCredentials
from shoal.mqtt.broker_topics import is_bridge_state, is_brokers_own
from shoal.mqtt.codec.errors import MqttError
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connack, Connect
from shoal.mqtt.codec.properties import NO_PROPERTIES
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.broker_api import AdmittedClient, BrokerApi
from shoal.mqtt.connection.connecting import agree, connack_properties, read_promises
from shoal.mqtt.sessions.delivering.outgoing import ClientSessionWriter


class ConnectionEntry:
    """The entry of one client until it is admitted or refused; `terms` are the agreed terms."""

    def __init__(self, broker_api: BrokerApi, connect: Connect, known: ClientCredentials) -> None:
        self.connect = connect
        self.terms = agree(connect, broker_api.limits)
        self.credentials = msgspec.structs.replace(
            known,
            client_id=connect.client_id,
            username=connect.username,
            password=connect.password,
        )
        self._broker_api = broker_api
        # Its advertisements, after admission.
        self._promises: tuple[Filter, ...] = ()

    def judged(self, admission: ClientAdmission) -> ClientAdmission:
        """The answer of `Access`, or a refusal because the broker cannot grant the CONNECT."""
        connect = self.connect
        if admission.reason_code is not ReasonCode.SUCCESS:
            return admission
        try:
            self._promises = read_promises(connect, self._broker_api.limits)
        except MqttError as error:
            return ClientAdmission(error.reason_code, reason=str(error))
        # A bridge without permission for its state topic is admitted, as in mosquitto: the rules
        # are checked again when its will is published.
        if connect.will is not None and not is_bridge_state(connect.will.topic):
            topic = connect.will.topic
            if is_brokers_own(topic) or not admission.permissions.may_publish(topic):
                reason = f"no permission for the will on {topic!r}"
                return ClientAdmission(ReasonCode.NOT_AUTHORIZED, reason=reason)
        if self._broker_api.sessions.belongs_to_another_user(connect.client_id, admission.user):
            return ClientAdmission(ReasonCode.NOT_AUTHORIZED, reason=ANOTHER_USERS)
        no_room = self._broker_api.no_room_for(connect.client_id, admission.user, connect.will)
        if no_room:
            return ClientAdmission(ReasonCode.QUOTA_EXCEEDED, reason=no_room)
        return admission

    def let_in(
        self, admission: ClientAdmission, session_writer: ClientSessionWriter
    ) -> AdmittedClient:
        """Admit the client, and forget its password."""
        self.credentials = msgspec.structs.replace(
            self.credentials, password=None, known=admission.known
        )
        client_id = self.connect.client_id or self._broker_api.new_client_id()
        return AdmittedClient(
            self.connect, client_id, admission.user, self.terms, self._promises, session_writer
        )

    def connack(self, client_id: str, *, present: bool) -> Connack:
        """The CONNACK of an admitted client."""
        properties = NO_PROPERTIES
        if self.connect.version == MQTT_5:
            limits = self._broker_api.limits
            properties = connack_properties(self.connect, client_id, self.terms, limits)
        return Connack(ReasonCode.SUCCESS, present, properties)
