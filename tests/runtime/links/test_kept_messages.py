"""A link that is up for long and still keeps a guest's message says why."""

from __future__ import annotations

from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.session import LinkSession
from shoal.broker.messages import Message, PublicationBatch, Unsubscribe
from shoal.broker.wire import COMMON, Codec
from shoal.runtime.links.link_scheduler import KEPT_US, PeerLink


class GuestTable(Message, frozen=True):
    """A message of a system that forgot to let it introduce."""


CODEC = Codec((*COMMON, *CONTROLS, GuestTable))
UP_US = 3_000_000


def linked() -> PeerLink:
    """A link of A that has come up."""
    one = LinkSession("n", "A", "B", 1, CODEC, is_graceful=True)
    other = LinkSession("n", "B", "A", 1, CODEC, is_graceful=True)
    said, answer = one.hello(), other.hello()
    one.connected(answer, UP_US)
    other.connected(said, UP_US)
    link = PeerLink(one, is_lasting=True, now_us=0)
    link.on_link_up(answer, UP_US)
    return link


def problem(link: PeerLink, now_us: int) -> str:
    return str(link.status(0, now_us)["problem"])


def test_a_forgotten_introduces_is_a_links_problem() -> None:
    link = linked()
    link.session.send(GuestTable())
    assert problem(link, UP_US + KEPT_US - 1) == ""
    assert problem(link, UP_US + KEPT_US) == (
        "A keeps GuestTable for B until it emits LinkReady('B'); a message that has to pass before "
        "has `introduces = True` (docs/tutorials/write-an-overlay.md)"
    )
    link.session.open_gate()
    assert problem(link, UP_US + KEPT_US) == ""


def test_publications_and_messages_of_the_package_wait_without_a_word() -> None:
    link = linked()
    link.session.send(PublicationBatch((), 0))
    link.session.send(Unsubscribe("s"))
    assert problem(link, UP_US + KEPT_US) == ""
