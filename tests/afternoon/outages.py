"""Steps with killed, stopped, damaged and forgotten brokers, in their order."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from shoal.batches import framed
from tests.afternoon.morning import FOLLOWER, MIDDLE_S
from tests.afternoon.network import BOUND_S, Network

# A killed broker's neighbours notice it.
NOTICED_S = 1.0
# Publications arrive after a copy of a folder.
LATER_S = 3.0


def kill(network: Network) -> None:
    """B3 is killed: a neighbour of it does not leave; B3 starts again."""
    with network.outage("B3"):
        time.sleep(NOTICED_S)
        network.command("status", code=1, says="B3 does not answer")
        # Links may have been exchanged, so that only a broker that joined is beside it.
        beside = min(name for name, lacks in network.missing().items() if "B3" in lacks)
        network.command("leave", beside, code=2, says=f"{beside} cannot leave: B3 is not connected")


def stop(network: Network) -> None:
    """B3 stops by SIGTERM and starts again."""
    with network.outage("B3", how=signal.SIGTERM):
        pass


def kill_in_leave(network: Network) -> None:
    """B4 is killed while its neighbour J2 leaves; the leave ends either way."""
    admin = str(network.brokers.broker_address("J2", "admin"))
    end = network.begin("leave", "J2", "--admin", admin)
    time.sleep(MIDDLE_S)
    with network.outage("B4"):
        time.sleep(LATER_S)
        network.command("leave", "J2", "--admin", admin, "--abort", code=None)
    if "J2 has left" in end(None, "J2"):
        network.await_end("J2", 0)
        network.start("J2")


def forget(network: Network) -> None:
    """J2 is killed and forgotten."""
    network.ledger.excuse_forget("J2")
    network.stop("J2")
    time.sleep(NOTICED_S)
    network.command("forget", "J2", says="J2 is forgotten")


def ghost(network: Network) -> None:
    """J2, which was forgotten, returns with its old folder."""
    network.start("J2")


def drain(network: Network) -> None:
    """B1 is drained, and takes clients again; the follower is moved."""
    network.command("drain", "B1", says="B1 is drained")
    network.check_status(1)
    network.command("undrain", "B1")
    network.await_ready("B1")
    follower = next(each for each in network.ledger.publishers if each.name == FOLLOWER)
    to = "B3" if follower.broker != "B3" else "B1"
    network.command("move", FOLLOWER, to, says=f"to {to}")
    network.wait(f"{FOLLOWER} is at {to}", lambda: follower.broker == to, lambda: follower.broker)


def taken_port(network: Network) -> None:
    """B4 is refused while another program listens at its port."""
    address = network.brokers.broker_address("B4", "mqtt")
    with network.outage("B4", how=signal.SIGTERM), socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", address.port))
        taken.listen()
        network.is_refused("B4", "mqtt: cannot listen", str(address.port))


def _journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("journal-*"))


def _other_version(file: Path) -> None:
    file.write_bytes(framed(msgspec.msgpack.encode(["shoal journal 9", "n", "B4"])))


def _damage(file: Path) -> None:
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(data[:middle] + bytes(50) + data[middle + 50 :])


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _other_format(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"format": 1', '"format": 9', 1), encoding="utf-8")


def damaged_folder(network: Network) -> None:
    """B4 is refused with the file and the cause while a file of its folder is wrong."""
    folder, kept = network.data("B4"), network.folder / "kept"

    def put_back(source: Path) -> None:
        shutil.rmtree(folder)
        shutil.copytree(source, folder)

    def refuse(file: Path, spoil: Callable[[Path], None], cause: str) -> None:
        spoil(file)
        network.is_refused("B4", str(folder), cause)
        put_back(kept)

    with network.outage("B4", how=signal.SIGTERM):
        shutil.copytree(folder, kept)
        journals = _journals(folder)
        refuse(journals[-1], _other_version, "version")
        refuse(max(journals, key=lambda each: each.stat().st_size), _damage, "journal-")
        # The last file may end anywhere: its broker may have been killed.
        if len(journals) > 1:
            refuse(journals[0], _cut, "journal-")
        if (overlay := folder / "overlay.json").exists():
            refuse(overlay, _other_format, "format 9")
            refuse(overlay, _cut, "cannot be read")
        network.copy_data("B1", folder)
        network.is_refused("B4", str(folder), "of broker 'B1'")
        put_back(kept)


def older_copy(network: Network) -> None:
    """B4 starts with an older copy of its folder, leaves, and joins again."""
    folder, copy = network.data("B4"), network.folder / "copy"
    at = network.ledger.at("B4")
    network.copy_data("B4", copy)
    time.sleep(LATER_S)
    at += network.ledger.at("B4")
    with network.outage("B4", how=signal.SIGTERM):
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
    network.ledger.excuse_older_copy(at)
    network.is_heard()
    network.leave("B4")
    network.is_heard()
    network.rejoin("B4", "B1")


def stop_all(network: Network) -> None:
    """All brokers stop by SIGTERM and start again."""
    with network.outage(*network.running, how=signal.SIGTERM):
        pass


def kill_all(network: Network) -> None:
    """All brokers are killed and start again."""
    with network.outage(*network.running):
        pass


def edge_leaves(network: Network) -> None:
    """J1 and B4, at the edge, leave."""
    network.leave("J1")
    network.leave("B4")


def end(network: Network) -> None:
    """Publishers end; each acknowledged publication has arrived."""
    for publisher in network.ledger.publishers:
        publisher.end()
    ledger = network.ledger
    network.wait(
        "every subscriber has all that was acknowledged",
        lambda: not ledger.debts(),
        lambda: {pair: (len(each), each[:5]) for pair, each in ledger.debts().items()},
        BOUND_S,
    )
    for subscriber in ledger.subscribers:
        subscriber.end()
    network.stop(*network.running, how=signal.SIGTERM)


STEPS = (
    kill,
    stop,
    kill_in_leave,
    forget,
    ghost,
    drain,
    taken_port,
    damaged_folder,
    older_copy,
    stop_all,
    kill_all,
    edge_leaves,
)
