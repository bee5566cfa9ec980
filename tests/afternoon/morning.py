"""Steps with files, joins, certificates and leaves, in their order."""

from __future__ import annotations

import time

import trustme

from tests.afternoon.clients import FILTER, Follower, PahoPublisher, PahoSubscriber
from tests.afternoon.network import BROKERS, Network, StepError
from tests.afternoon.programs import MosquittoSubscriber, MqttJsSubscriber

RULES = '[{ user = "", publish = ["site/#"], subscribe = ["site/#"] }]'
FOLLOWER = "radar"
# Into the middle of a leave, and of a full disk.
MIDDLE_S = 0.8
FULL_S = 4.0


def start(network: Network) -> None:
    """Four brokers start, and clients connect."""
    network.command("check", says="nothing wrong")
    network.start(*BROKERS)
    ledger, ports = network.ledger, network.ports
    for subscriber in (
        PahoSubscriber("s1", ports("B1", "B3")),
        PahoSubscriber("s2", ports("B2", "B1", "B3"), "3.1.1"),
        PahoSubscriber("filtered", ports("B2", "B3", "B1"), content=FILTER),
        PahoSubscriber("s4", ports("B4", "B3", "B1")),
    ):
        ledger.add_subscriber(subscriber)
    for program in (
        MosquittoSubscriber("mosquitto", ports("B4", "B3", "B1"), network.folder),
        MqttJsSubscriber("mqttjs", ports("B3", "B1"), network.folder),
    ):
        if program.missing:
            print(f"  left out, not installed: {program.missing}")
        else:
            ledger.add_subscriber(program)
    for each in ledger.subscribers:
        each.start()
    for publisher in (
        PahoPublisher("p1", ports("B1", "B3")),
        PahoPublisher("p2", ports("B2", "B3", "B1"), "3.1.1"),
        PahoPublisher("p3", ports("B3", "B1")),
        PahoPublisher("p4", ports("B4", "B1")),
        Follower(FOLLOWER, ports(*BROKERS)),
    ):
        ledger.add_publisher(publisher)
        publisher.start()


def _add_clients(network: Network, broker: str) -> None:
    """A publisher and a subscriber at a broker that has joined."""
    number = len(network.ledger.publishers) + 1
    subscriber = PahoSubscriber(f"s{number}", network.ports(broker, "B1"))
    publisher = PahoPublisher(f"p{number}", network.ports(broker, "B1"))
    network.ledger.add_subscriber(subscriber)
    network.ledger.add_publisher(publisher)
    subscriber.start()
    publisher.start()


def bad_file(network: Network) -> None:
    """SIGHUP with a file that is no TOML changes nothing."""
    network.write("no toml here\n")
    network.reload(*BROKERS, event="not reloaded, nothing has changed")
    network.command("check", code=2, says="network.toml: ")
    network.command("status", code=2, says="network.toml: ")
    network.write()
    network.reload(*BROKERS)


def rules(network: Network) -> None:
    """Brokers reload rules of access."""
    network.write(rules=RULES)
    network.command("check", says="nothing wrong")
    network.reload(*BROKERS)


def join(network: Network) -> None:
    """J1 joins over B2."""
    network.join("J1", "B2")
    _add_clients(network, "J1")


def full_disk(network: Network) -> None:
    """J2 joins over B4 while the disk of B4 is full."""
    network.brokers.fill_disk("B4")
    time.sleep(FULL_S)
    network.check_status(1)
    network.brokers.joining("J2", "B4")
    network.brokers.run("J2")
    time.sleep(FULL_S)
    network.check_status(1)
    network.brokers.empty_disk("B4")
    network.await_ready("J2")
    network.await_ready("B4")
    _add_clients(network, "J2")


def rotation(network: Network) -> None:
    """B2, in the middle, leaves while the authority and all certificates change by file."""
    network.command("leave", "B2", "--dry-run", says="B2 can leave")
    new = trustme.CA()
    network.trust(network.authority, new)
    network.reload(*network.running)
    end = network.begin("leave", "B2")
    time.sleep(MIDDLE_S)
    network.issue(new)
    others = [each for each in network.running if each != "B2"]
    network.reload(*others)
    end(0, "B2 has left")
    network.await_end("B2", 0)
    network.trust(new)
    network.reload(*others)
    network.authority = new


def unknown_names(network: Network) -> None:
    """Operators cannot forget or take out a broker that is unknown, nor forget one that runs."""
    network.command("leave", "B9", code=2, says="B9")
    network.command("forget", "B9", code=2, says="B9")
    network.command("forget", "B1", code=2, says="B1")
    network.command("leave", "B2", says="B2 had left already")


def back(network: Network) -> None:
    """B2 is not ready without `--join`; with it, B2 joins again."""
    before = len(network.brokers.log("B2"))
    network.brokers.run("B2")
    network.wait(
        "B2 says that it has left",
        lambda: "has left the network" in network.brokers.log("B2")[before:],
        lambda: network.last_line("B2"),
    )
    if network.get("B2", "/ready")[0] == 200:
        raise StepError("B2 is ready, though it has left")
    network.stop("B2")
    network.rejoin("B2", "B1")


def leave_of_joined(network: Network) -> None:
    """J1 leaves by its name, which no file lists, and joins again."""
    network.leave("J1")
    network.join("J1", "B1")


STEPS = (
    start,
    bad_file,
    rules,
    join,
    full_disk,
    rotation,
    unknown_names,
    back,
    leave_of_joined,
)
