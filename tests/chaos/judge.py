"""Compares the history of a run with the guarantees (docs/background/guarantees.md).

A pure function: a plan and a history become violations.

| kind | what is wrong |
| --- | --- |
| lost | a publication was acknowledged, and a session that existed throughout did not receive it |
| doubled | QoS 2 end to end, and received twice by a session, or by two members of a group |
| disordered | a publisher's later publication came first (not in groups: MQTT 5, 4.6) |
| phantom | a delivery of something never published, or not subscribed to |
| session | CONNACK's session present is wrong |
| unanswered | publications without an acknowledgement when the network should be at rest |
| silent | a broker that does not answer pings at rest, or is not ready |
| died, busy, grown, logged | a process that ended, computes at rest, grew, or logged a complaint |

Only the exceptions of docs/background/guarantees.md are excused: see `Excuses`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.chaos.excuses import Excuses, Key, Published
from tests.chaos.history import (
    Asked,
    Died,
    Disk,
    Done,
    Entered,
    Event,
    GivenUp,
    Got,
    Granted,
    Logged,
    Measured,
    Refused,
    Sent,
    Silent,
    Started,
    Taken,
)
from tests.chaos.schedule import Plan, SubscriberPlan

# Of one processor, at rest; an idle broker uses a hundredth.
BUSY_SHARE = 0.4
# Runs last seconds, and their messages are small.
GROWN_MB = 200.0
# Bound on the ranges of numbers in a violation's text.
LONGEST_LIST = 12
# Log messages of a broker with a full disk.
_OF_FULL_DISKS = ("the journal cannot be written", "No space left on device")


class Violation(NamedTuple):
    kind: str
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.who} {self.what}"


class _Session(NamedTuple):
    """A subscriber's session and the time in which it can be judged."""

    granted_s: float
    # The time at which its broker said that it was lost, else infinity.
    until_s: float


def judge(plan: Plan, history: Sequence[Event]) -> list[Violation]:
    """All violations, the gravest first."""
    return [
        *missing(plan, history),
        *_doubled(plan, history),
        *_disordered(plan, history),
        *_phantoms(plan, history),
        *_sessions(plan, history),
        *_at_rest(history),
    ]


# --- loss ------------------------------------------------------------------------------------


def missing(plan: Plan, history: Sequence[Event]) -> list[Violation]:
    """Publications that are lost or have not arrived yet."""
    published = _publications(history)
    sessions = _judged_sessions(plan, history)
    got = _got(history)
    excuses = Excuses(plan, history)
    lost: dict[tuple[str, str], list[Key]] = defaultdict(list)
    for subscriber in plan.subscribers:
        session = sessions.get(subscriber.name)
        if session is None or subscriber.group:
            continue
        for key in _owed(published, session, subscriber):
            if key not in got[subscriber.name] and not excuses.loss(published[key], subscriber):
                lost[subscriber.name, key[0]].append(key)
    for group, members in _groups(plan).items():
        judged = [sessions[each.name] for each in members if each.name in sessions]
        if not judged or any(each.until_s != float("inf") for each in judged):
            continue  # a member whose session ended took its in-flight messages with it
        session = _Session(max(each.granted_s for each in judged), float("inf"))
        had = set().union(*(got[each.name] for each in members))
        for key in _owed(published, session, members[0]):
            if key not in had and not any(excuses.loss(published[key], each) for each in members):
                lost[f"group {group}", key[0]].append(key)
    return [
        Violation("lost", who, f"never got {publisher}'s {_transmissions(published, keys)}")
        for (who, publisher), keys in lost.items()
    ]


def _owed(
    published: Mapping[Key, Published], session: _Session, subscriber: SubscriberPlan
) -> Iterable[Key]:
    for key, (sent, taken_s) in published.items():
        if (
            taken_s is not None
            and sent.at_s > session.granted_s
            and taken_s < session.until_s
            and _wants(subscriber, key[0], sent.x)
        ):
            yield key


def _wants(subscriber: SubscriberPlan, publisher: str, x: int) -> bool:
    return x >= subscriber.least and subscriber.publisher in ("", publisher)


def _judged_sessions(plan: Plan, history: Sequence[Event]) -> dict[str, _Session]:
    """Lasting sessions, from their first grant until a broker said that the session was new.

    Later subscriptions may be granted while brokers are disconnected, so they are not judged.
    """
    granted: dict[str, float] = {}
    until: dict[str, float] = {}
    for event in history:
        match event:
            case Granted(client=client):
                granted.setdefault(client, event.at_s)
            case Entered(client=client, present=False) if client in granted:
                until.setdefault(client, event.at_s)
    return {
        each.name: _Session(granted[each.name], until.get(each.name, float("inf")))
        for each in plan.subscribers
        if each.lasts and each.name in granted
    }


# --- doubles, order, phantoms ----------------------------------------------------------------


def _doubled(plan: Plan, history: Sequence[Event]) -> list[Violation]:
    published = _publications(history)
    sessions = _judged_sessions(plan, history)
    excuses = Excuses(plan, history)
    # Members of a group count as one subscriber. A client with a lost session cannot detect
    # duplicates.
    names = {
        each.name: f"group {each.group}" if each.group else each.name
        for each in plan.subscribers
        if each.qos == 2 and each.name in sessions
    }
    ended = {names[name] for name in names if sessions[name].until_s != float("inf")}
    gots: dict[str, dict[Key, list[Got]]] = defaultdict(lambda: defaultdict(list))
    for event in history:
        if isinstance(event, Got) and event.client in names:
            gots[names[event.client]][event.publisher, event.number].append(event)
    found = []
    for who, by_key in gots.items():
        twice: dict[str, list[Key]] = defaultdict(list)
        for key, several in by_key.items():
            publication = published.get(key)
            if publication is None or len(several) == 1 or who in ended or publication.sent.qos < 2:
                continue
            is_excused = excuses.double(publication.sent) or (
                who.startswith("group ")
                and excuses.shared_double(publication.sent, {got.broker for got in several})
            )
            if not is_excused:
                twice[key[0]].append(key)
        found += [
            Violation("doubled", who, f"got twice {publisher}'s {_transmissions(published, keys)}")
            for publisher, keys in twice.items()
        ]
    return found


def _disordered(plan: Plan, history: Sequence[Event]) -> list[Violation]:
    """Order is judged by first occurrences: at QoS 1 a repetition may come at any time.

    A QoS 1 publication retransmitted at another broker is published a second time. A subscriber
    that missed the first copy receives the second behind later publications.
    """
    grouped = {each.name for each in plan.subscribers if each.group}
    published, excuses = _publications(history), Excuses(plan, history)
    again_s: dict[Key, list[float]] = defaultdict(list)
    repeated: set[Key] = set()
    # By client: the time from which its subscriptions are granted.
    granted_s: dict[str, float] = {}
    seen: dict[tuple[str, str], set[int]] = defaultdict(set)
    newest: dict[tuple[str, str], int] = {}
    late: dict[tuple[str, str], list[tuple[int, int, float]]] = defaultdict(list)
    for event in history:
        match event:
            # Before the grant, messages may come with gaps. Retransmissions fill the gaps: the
            # publisher's, or those of its restarted broker.
            case Entered(client=client, present=False) | Granted(client=client):
                is_granted = isinstance(event, Granted)
                granted_s[client] = event.at_s if is_granted else float("inf")
                for pair in [pair for pair in newest if pair[0] == client]:
                    del newest[pair]
            case Sent(client=client, number=number, again=True):
                repeated.add((client, number))
                if event.qos == 1 and event.broker != published[client, number].sent.broker:
                    again_s[client, number].append(event.at_s)
            case Started(broker=broker, at_s=at_s):
                repeated.update(
                    key
                    for key, (sent, taken_s) in published.items()
                    if sent.broker == broker
                    and sent.at_s < at_s
                    and (taken_s is None or taken_s > at_s)
                )
            case Got(client=client, publisher=publisher, number=number) if client not in grouped:
                pair = client, publisher
                if number in seen[pair]:
                    continue
                seen[pair].add(number)
                of = published.get((publisher, number))
                is_excused = of is not None and (
                    excuses.disorder(event, of.sent)
                    or ((publisher, number) in repeated and of.sent.at_s < granted_s.get(client, 0))
                )
                if number < newest.get(pair, 0) and not is_excused:
                    later = published.get((publisher, newest[pair]))
                    times = again_s[publisher, number]
                    if later is None or not any(at_s > later.sent.at_s for at_s in times):
                        late[pair].append((number, newest[pair], event.at_s))
                newest[pair] = max(newest.get(pair, 0), number)
    return [
        Violation(
            "disordered",
            who,
            f"got {len(found)} of {publisher}'s late, the first was {found[0][0]} after "
            f"{found[0][1]}, at {found[0][2]:.2f} s: {_ranges([number for number, *_ in found])}",
        )
        for (who, publisher), found in late.items()
    ]


def _phantoms(plan: Plan, history: Sequence[Event]) -> list[Violation]:
    published = _publications(history)
    subscribers = {each.name: each for each in plan.subscribers}
    found = []
    for event in history:
        if not isinstance(event, Got):
            continue
        publication = published.get((event.publisher, event.number))
        what = f"got {event.publisher}'s {event.number} at {event.at_s:.2f} s, "
        if publication is None or publication.sent.at_s > event.at_s:
            found.append(Violation("phantom", event.client, what + "which was not published"))
        elif publication.sent.x != event.x:
            found.append(Violation("phantom", event.client, what + "which was another"))
        elif not _wants(subscribers[event.client], event.publisher, event.x):
            found.append(Violation("phantom", event.client, what + "which it did not ask for"))
    return found


# --- sessions --------------------------------------------------------------------------------


def _sessions(plan: Plan, history: Sequence[Event]) -> list[Violation]:
    """Session present must be right. An unanswered CONNECT may have made a session."""
    lasting = {each.name for each in plan.subscribers if each.lasts}
    lasting |= {each.name for each in plan.publishers}
    published, got = _publications(history), _got(history)
    subscribers = {each.name: each for each in plan.subscribers}
    judged = _judged_sessions(plan, history)
    asked: Counter[str] = Counter()
    has_entered: dict[str, Entered] = {}
    found = []
    for event in history:
        match event:
            case Asked(client=client):
                asked[client] += 1
            case Entered(client=client, broker=broker, present=present):
                former = has_entered.get(client)
                # An unanswered CONNECT may have made a session.
                is_first = former is None and asked[client] == 1
                if present and (client not in lasting or is_first):
                    what = f"found a session at {broker} at {event.at_s:.2f} s, though it had none"
                    found.append(Violation("session", client, what))
                if not present and former is not None and client in lasting:
                    what = (
                        f"found no session at {broker} at {event.at_s:.2f} s; it was at "
                        f"{former.broker} at {former.at_s:.2f} s"
                    )
                    session = judged.get(client)
                    if session is not None and session.until_s == event.at_s:
                        owed = [
                            key
                            for key in _owed(published, session, subscribers[client])
                            if key not in got[client]
                        ]
                        what += f"; {len(owed)} acknowledged messages went with it or were there"
                    found.append(Violation("session", client, what))
                has_entered[client] = event
    return found


# --- rest ------------------------------------------------------------------------------------


def _at_rest(history: Sequence[Event]) -> list[Violation]:
    found = []
    was_full, full = set[str](), set[str]()
    waiting: dict[str, dict[int, Sent]] = defaultdict(dict)
    for event in history:
        match event:
            case Sent(client=client, number=number):
                waiting[client].setdefault(number, event)
            case (
                Done(client=client, number=number)
                | Refused(client=client, number=number)
                | GivenUp(client=client, number=number)
            ):
                waiting[client].pop(number, None)
            case Disk(broker=broker, is_full=True):
                was_full.add(broker)
                full.add(broker)
            case Disk(broker=broker):
                full.discard(broker)
            case Died(broker=broker, code=2) if broker in full:
                pass  # it does not start on a full disk, and says so
            case Died(broker=broker, code=code):
                found.append(Violation("died", broker, f"with {code} at {event.at_s:.2f} s"))
            case Silent(client=client, broker=broker):
                what = f"gives {client} no answer at {event.at_s:.2f} s"
                found.append(Violation("silent", broker, what))
            case Logged(broker=broker, line=line):
                if broker not in was_full or not any(each in line for each in _OF_FULL_DISKS):
                    found.append(Violation("logged", broker, line))
            case Measured(broker=broker, cpu_s=cpu_s, during_s=during_s):
                if cpu_s > BUSY_SHARE * during_s:
                    what = f"computes for {cpu_s:.2f} of {during_s:.2f} s at rest"
                    found.append(Violation("busy", broker, what))
                if event.memory_mb > event.memory_at_start_mb + GROWN_MB:
                    what = f"grew from {event.memory_at_start_mb:.0f} to {event.memory_mb:.0f} MB"
                    found.append(Violation("grown", broker, what))
    for client, numbers in waiting.items():
        if numbers:
            first = next(iter(numbers.values()))
            what = (
                f"has no answer to {_ranges(numbers)} ({len(numbers)}), the first sent at "
                f"{first.at_s:.2f} s"
            )
            found.append(Violation("unanswered", client, what))
    return found


# --- parts -----------------------------------------------------------------------------------


def _publications(history: Sequence[Event]) -> dict[Key, Published]:
    sent: dict[Key, Sent] = {}
    taken: dict[Key, float] = {}
    for event in history:
        match event:
            case Sent(client=client, number=number):
                sent.setdefault((client, number), event)
            case Taken(client=client, number=number):
                taken.setdefault((client, number), event.at_s)
    return {key: Published(event, taken.get(key)) for key, event in sent.items()}


def _got(history: Sequence[Event]) -> dict[str, set[Key]]:
    found: dict[str, set[Key]] = defaultdict(set)
    for event in history:
        if isinstance(event, Got):
            found[event.client].add((event.publisher, event.number))
    return found


def _groups(plan: Plan) -> dict[str, list[SubscriberPlan]]:
    found: dict[str, list[SubscriberPlan]] = defaultdict(list)
    for each in plan.subscribers:
        if each.group:
            found[each.group].append(each)
    return found


def _transmissions(published: Mapping[Key, Published], keys: Sequence[Key]) -> str:
    """The publications of the history with their transmissions and acknowledgements."""
    sent_s = [published[key].sent.at_s for key in keys]
    taken_s = [at_s for key in keys if (at_s := published[key].taken_s) is not None]
    taken = f", taken {min(taken_s):.2f} to {max(taken_s):.2f} s" if taken_s else ""
    numbers = _ranges([number for _, number in keys])
    return f"{numbers} ({len(keys)}), sent {min(sent_s):.2f} to {max(sent_s):.2f} s{taken}"


def _ranges(numbers: Iterable[int]) -> str:
    """
    >>> _ranges([1, 2, 3, 7])
    '1-3, 7'
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    told = [f"{low}-{high}" if low < high else f"{low}" for low, high in found]
    return ", ".join(told if len(told) <= LONGEST_LIST else [*told[:LONGEST_LIST], "..."])
