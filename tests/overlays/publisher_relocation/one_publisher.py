"""A publisher and its subscribers in a tree, for tests of its moves."""

from __future__ import annotations

from collections.abc import Sized

from shoal.broker.effects import Effect
from shoal.broker.messages import Advertise, Subscribe
from shoal.clients.messages import MigrationAdvertisement, Paused, Resume
from shoal.model import Advertisement
from tests.broker.transcript import Stage, advertisement, subscription

#  B0        B4
#    \      /
#     B1 - B2 - B3      P stands at B1 and moves to B3
#           \
#            B5
WEB = (("B0", "B1"), ("B1", "B2"), ("B2", "B3"), ("B2", "B4"), ("B2", "B5"))
PATH = ("B1", "B2", "B3")
BACK = PATH[::-1]
SUBSCRIBERS = {"S0": "B0", "S1": "B1", "S2": "B2", "S3": "B3", "S4": "B4", "S5": "B5"}
A = advertisement("a")


def stage_with_publisher(*advertisements: Advertisement) -> Stage:
    """P at B1, one subscriber of everything at each broker."""
    stage = Stage(WEB, "grape")
    stage.ask("B1", "P", *map(Advertise, advertisements or (A,)))
    for client, broker in SUBSCRIBERS.items():
        stage.ask(broker, client, Subscribe(subscription(f"s of {client}", client=client)))
    stage.settle()
    stage.take_transcript()
    return stage


def send_away(stage: Stage, publisher: str, path: tuple[str, ...]) -> None:
    """The source's order to move, as GRAPE's decision causes it."""
    out: list[Effect] = []
    stage.brokers[path[0]]._strategy.migrations.send_away(publisher, path, stage.now_us, out)  # type: ignore[attr-defined]
    stage.carry_out(path[0], out)


def announce(stage: Stage, path: tuple[str, ...] = PATH, *advertisements: Advertisement) -> None:
    """P announces itself at the target; its marker is still on the way to the source."""
    publisher = advertisements[0].publisher if advertisements else "P"
    send_away(stage, publisher, path)
    stage.moves[publisher] += 1
    count = stage.moves[publisher]
    stage.ask(path[-1], publisher, MigrationAdvertisement(path, advertisements or (A,), count))


def move(stage: Stage, path: tuple[str, ...] = PATH, *advertisements: Advertisement) -> None:
    """A whole migration with no other event meanwhile."""
    publisher = advertisements[0].publisher if advertisements else "P"
    announce(stage, path, *advertisements)
    stage.ask(path[0], publisher, Paused(path, stage.moves[publisher]))
    stage.settle()


def everywhere(stage: Stage, sequence: int) -> bool:
    """Whether every subscriber receives a publication exactly once."""
    clients = sorted(client for number, client in stage.delivered() if number == sequence)
    return clients == sorted(SUBSCRIBERS)


def resumed(stage: Stage) -> list[str]:
    """The publishers that were resumed, in order."""
    return [client for _, client, message in stage.notified if isinstance(message, Resume)]


def interests() -> list:
    return [
        (subscription(f"s of {client}", client=client), broker)
        for client, broker in SUBSCRIBERS.items()
    ]


def assert_nothing_is_left(stage: Stage) -> None:
    for broker in stage.brokers.values():
        migrations = broker._strategy.migrations  # type: ignore[attr-defined]
        left = {
            what: rows
            for what, rows in vars(migrations).items()
            if isinstance(rows, Sized) and what != "_arrived" and rows
        }
        assert not left, broker.id
