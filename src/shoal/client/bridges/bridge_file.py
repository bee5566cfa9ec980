"""A bridge's file: the two brokers it joins, and the rules for messages between them.

`here` is a shoal network, `there` any MQTT broker.

>>> bridge = parse_bridge({"name": "home", "here": {"address": "b1:1883"},
...     "there": {"address": "mosquitto:1883", "version": "3.1.1"},
...     "out": [{"topic": "alarms/#", "where": "level > 3", "add": "shoal/"}]}, "bridge.toml")
>>> bridge.outgoing[0].carried("alarms/door")
'shoal/alarms/door'
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from shoal import typed_toml
from shoal.client.endpoint import Tls, read_endpoint
from shoal.language import FilterSyntaxError, parse
from shoal.matching.topics.filters import TopicError, read_topic_filter
from shoal.typed_toml import TomlError

Positive = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
DAY_S = 86_400
# The page that explains its keys.
PAGE = "docs/reference/bridge.md"


class BridgeSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a bridge's file."""


class EndSection(BridgeSection, frozen=True, kw_only=True):
    """One broker, and the bridge's credentials there.

    address        host:port, or mqtts://, ws://, wss:// before it
    version        of MQTT
    username       the user name
    password_file  has the password in its first line
    authority      over TLS: the issuer of the broker's certificate, in PEM
    certificate    over TLS: the bridge's own, where the broker wants one
    key            over TLS: its private key
    server_name    over TLS: the name in the broker's certificate, if not the host
    """

    address: str
    version: Literal["5", "3.1.1"] = "5"
    username: str | None = None
    password_file: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""

    def __post_init__(self) -> None:
        try:
            read_endpoint(self.address)
        except ValueError as error:
            raise ValueError(f"address: {error}") from None

    @property
    def tls(self) -> Tls:
        return Tls(
            authority=self.authority,
            certificate=self.certificate,
            key=self.key,
            server_name=self.server_name,
        )

    def password(self) -> str | None:
        """The password of the file; ValueError when it cannot be read."""
        if not self.password_file:
            return None
        try:
            lines = Path(self.password_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"password_file: {self.password_file}: {error}") from None
        return lines[0] if lines else ""


class BridgeRuleSection(BridgeSection, frozen=True, kw_only=True):
    """A rule for messages in one direction.

    topic    a topic filter at the source
    where    a content filter in SQL; applied at shoal's side
    remove   a prefix of all these topics that is removed
    add      a prefix that is added for the target
    qos      the highest QoS
    """

    topic: str
    where: str = ""
    remove: str = ""
    add: str = ""
    qos: Literal[0, 1, 2] = 1

    def __post_init__(self) -> None:
        if self.qos == 2:
            raise ValueError(
                "qos: 2 cannot be kept between brokers: a bridge that is killed forgets the "
                "messages that it has sent, and sends them again; use 1"
            )
        try:
            read_topic_filter(self.topic)
        except TopicError as error:
            raise ValueError(f"topic: {error}") from None
        if self.topic.startswith("$"):
            raise ValueError("topic: begins with $, which is a broker's own, or a shared one")
        if not self.topic.startswith(self.remove) or set(self.remove) & set("+#"):
            raise ValueError(f"remove: {self.topic!r} does not begin with {self.remove!r}")
        if set(self.add) & set("+#\0"):
            raise ValueError("add: has a wildcard in it")
        if self.where:
            try:
                parse(self.where)
            except FilterSyntaxError as error:
                raise ValueError(f"where: {error.one_line}") from None

    def carried(self, topic: str) -> str:
        """A topic, or a topic filter, as it is named at the target."""
        return self.add + topic.removeprefix(self.remove)


class Bridge(
    BridgeSection, frozen=True, kw_only=True, rename={"incoming": "in", "outgoing": "out"}
):
    """A bridge between a shoal network (`here`) and any MQTT broker (`there`).

    Files that it names are relative to its folder.

    name                  one bridge of a name runs at a time
    group                 bridges of one group share messages: one of them carries each message
    here, there           the two brokers, with the bridge's credentials
    in                    rules for messages from `there` to `here`
    out                   rules for messages from `here` to `there`
    keep_s                how long either broker keeps the bridge's session
    window                messages under way at once, in each direction
    maximum_packet_size   the bridge's, in bytes; a longer packet ends the connection
    """

    name: Name
    group: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = ""
    here: EndSection
    there: EndSection
    incoming: tuple[BridgeRuleSection, ...] = ()
    outgoing: tuple[BridgeRuleSection, ...] = ()
    keep_s: Positive = 7 * DAY_S
    window: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 100
    maximum_packet_size: Annotated[int, msgspec.Meta(ge=1_024)] = 16 * 2**20


_FILES = ("password_file", "authority", "certificate", "key")


def load_bridge(path: Path) -> Bridge:
    """Load the bridge of a TOML file; TomlError has the problem and its place.

    Files that it names are relative to its folder.
    """
    bridge = parse_bridge(typed_toml.read_table(path), str(path))
    folder = path.parent.resolve()

    def end(section: EndSection) -> EndSection:
        files = {name: str(folder / text) for name in _FILES if (text := getattr(section, name))}
        return msgspec.structs.replace(section, **files)

    return msgspec.structs.replace(bridge, here=end(bridge.here), there=end(bridge.there))


def parse_bridge(data: dict[str, Any], label: str) -> Bridge:
    """The bridge of nested dictionaries; TomlError as in `load_bridge`."""
    bridge = typed_toml.convert(data, Bridge, label, pages={"": PAGE})
    if not bridge.incoming and not bridge.outgoing:
        raise TomlError(f"{label}: out: nothing is carried; write [[out]] or [[in]] ({PAGE})")
    if bridge.here.version == "3.1.1" and any(rule.where for rule in bridge.outgoing):
        raise TomlError(
            f"{label}: here.version: 3.1.1 has no filters on content, and out has one ({PAGE})"
        )
    if "3.1.1" in (bridge.here.version, bridge.there.version):
        _check_no_loop(bridge, label)
    return bridge


def _check_no_loop(bridge: Bridge, label: str) -> None:
    """Raise TomlError if outgoing messages could come in again, which 3.1.1 cannot prevent."""
    for place, going in enumerate(bridge.outgoing):
        for coming in bridge.incoming:
            out, back = going.carried(going.topic), coming.carried(coming.topic)
            if may_meet(out, coming.topic) and may_meet(back, going.topic):
                raise TomlError(
                    f"{label}: out[{place}].topic: goes to {out!r}, which {coming.topic!r} brings "
                    f"back, for ever; use other topics, or version 5 at both ends ({PAGE})"
                )


def may_meet(left: str, right: str) -> bool:
    """Whether a topic can match both topic filters.

    >>> may_meet("a/+/c", "a/#"), may_meet("a/b", "a/+/c")
    (True, False)
    """
    return _levels_meet(left.split("/"), right.split("/"))


def _levels_meet(left: list[str], right: list[str]) -> bool:
    for mine, others in zip(left, right, strict=False):
        if "#" in (mine, others):
            return True
        if "+" not in (mine, others) and mine != others:
            return False
    if len(left) == len(right):
        return True
    shorter, longer = sorted((left, right), key=len)
    return longer[len(shorter)] == "#" or shorter[-1] == "#"
