"""Inputs and effects of a machine never change: another broker, or a link, may have them already.

A system that sends a container of its own state, and changes it later, would send something else
over a real link, which encodes a message at once, than in the simulator, which passes it on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from shoal.broker.effects import Effect, Input, LinkState, Send
from shoal.broker.machine import Broker
from shoal.broker.messages import Message
from shoal.broker.strategy import BrokerContext
from shoal.model import BrokerId
from shoal.overlays.graph import MESSAGES
from shoal.overlays.registry import MODULES, SYSTEMS
from shoal.overlays.system import System
from tests.flooding import Flooding, Parameters
from tests.seeds.networks.random_stays import StayingNetwork
from tests.systems import each_protocol


class Witnessed(NamedTuple):
    """An input or effect, and its content when the machine had handled the input."""

    seen: Any
    content: str


class Witness:
    """Inputs and effects of all machines since it was made, each object once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The rows keep the objects, so that no later one gets the id of an earlier one.
        self._rows: dict[int, Witnessed] = {}
        handle = Broker.handle

        def witnessed(broker: Broker, input: Input, now_us: int) -> list[Effect]:
            self._add(input)
            effects = handle(broker, input, now_us)
            for effect in effects:
                self._add(effect)
            return effects

        monkeypatch.setattr(Broker, "handle", witnessed)

    def __len__(self) -> int:
        return len(self._rows)

    def _add(self, seen: Any) -> None:
        if id(seen) not in self._rows:
            self._rows[id(seen)] = Witnessed(seen, repr(seen))

    @property
    def changed(self) -> list[str]:
        """The former contents of those that have changed since."""
        return [row.content for row in self._rows.values() if repr(row.seen) != row.content]


GUESTS = [name for name in SYSTEMS if name not in MODULES]


@pytest.mark.parametrize("system", each_protocol(*GUESTS))
def test_inputs_and_effects_never_change(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness(monkeypatch)
    network = StayingNetwork(1, system=system)
    assert not network.run()
    assert len(witness) > 1_000
    assert not witness.changed


class NamesSent(Message, frozen=True):
    """The neighbours of a broker."""

    names: list[BrokerId]


class SharesState(Flooding):
    """Sends the list that it goes on with."""

    def __init__(self, context: BrokerContext, parameters: Parameters) -> None:
        super().__init__(context, parameters)
        self._names: list[BrokerId] = []

    def on_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        super().on_link(neighbour, state, now_us, out)
        self._names.append(neighbour)
        if state is LinkState.UP:
            out.append(Send(neighbour, NamesSent(self._names)))

    def on_message(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if not isinstance(message, NamesSent):
            super().on_message(neighbour, message, now_us, out)


def test_a_system_that_sends_its_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(
        name="faulty",
        strategy=SharesState,
        shape=SYSTEMS["flooding"].shape,
        parameters=Parameters,
        messages=(*MESSAGES, NamesSent),
    )
    monkeypatch.setitem(SYSTEMS, "faulty", system)
    witness = Witness(monkeypatch)
    StayingNetwork(1, system="faulty").run()
    assert any("NamesSent" in content for content in witness.changed)
