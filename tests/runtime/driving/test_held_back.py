"""Input of clients that waits until a starting broker is ready, and input that does not."""

from __future__ import annotations

import pytest

from shoal.broker.messages import Advertise, Goodbye, Message, Subscribe, Unadvertise, Unsubscribe
from shoal.language import parse
from shoal.model import Subscription
from shoal.runtime.driving.waiting import held_back as module
from shoal.runtime.driving.waiting.held_back import HeldBack
from tests.broker.transcript import advertisement, publish

SUBSCRIBE = Subscribe(Subscription(id="s", client="P", filter=parse("x > 0")))


def test_publications_and_later_requests_of_their_clients_wait() -> None:
    held = HeldBack()
    promise: Message = Advertise(advertisement("a"))
    assert not held.keep("P", promise, None)
    assert held.keep("P", publish(1), None)
    assert held.keep("P", Unadvertise("a"), None)
    assert held.keep("P", promise, None)
    assert not held.keep("P", SUBSCRIBE, None)
    assert not held.keep("P", Unsubscribe("s"), None)
    assert not held.keep("Q", Goodbye(), None)
    assert held.take() == [
        ("P", publish(1), None),
        ("P", Unadvertise("a"), None),
        ("P", promise, None),
    ]
    assert held.take() == []
    assert not held.keep("P", promise, None)


def test_held_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    held = HeldBack()
    (publication,) = publish(1).publications
    body = type(publication)(
        publisher="P", sequence=1, published_us=0, attributes={}, body=b"x" * 6
    )
    request = type(publish(1))((body,))
    held.keep("P", request, None)
    assert not held.is_full
    held.keep("P", request, None)
    assert held.is_full
    held.take()
    assert not held.is_full
