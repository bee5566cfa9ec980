"""The broker as a pure machine, and the state it keeps until publications are settled.

Why nothing acknowledged is lost when a broker is killed
--------------------------------------------------------

A publication of QoS 1 or 2 is *settled* at a broker when it is in the sessions of its local
subscribers and settled at every neighbour it was sent to. Only then does the client get PUBACK or
PUBREC, in order.

- Each broker keeps the frames that it sent until the neighbour reports them settled
  (`broker/ack_tracker.py`, `broker/links/outbox.py`), so a neighbour of a killed broker still has
  what the other neighbours lack. An `AckTracker` counts the frames that one input caused; a link
  reports settled messages beside the number of handled ones.
- A broker that restarts within `give_up_us` (60 s) has no routing tables. Its neighbours keep its
  rows, as stale ones, and the frames for it; both ends send their tables anew and mark the end
  (`overlays/tree/exchange.py`); rows that were not sent again are removed. Until then the link
  holds
  publications at its gate, and the broker holds the publications of its own clients: for a
  neighbour in the journal (`NeighbourPut`) until it would be given up, for one never seen 10 s.
- A pause of the process does not count as silence of others (`runtime/driving/timing/pauses.py`):
  late timers wait for the data in the sockets, and the time in which a loop did not read its links
  does not count, so neighbours are given up that much later.
- While publications must wait, connections hold their clients' packets, within bounds, and answer
  PINGREQ (`mqtt/connection/connection.py`).
- Afterwards all that was not settled is retransmitted, marked; front ends drop duplicates
  (`mqtt/front_end/deduplication.py`).
- A system that needs further answers reports this (`Unsettled`, `Settled`), and the acknowledgement
  waits. BlueDove's dispatchers do: a publication is settled when a matcher has matched it and all
  edge brokers have it, a subscription when no publication can miss it. An edge broker that comes
  back gets the publications that it has not confirmed. If order is not kept (`keeps_order`;
  BlueDove with `order = "free"`), front ends remember publications one by one to drop duplicates.
- The results of BlueDove's matchers are complete: a matcher has every granted subscription that
  meets its segment, of every edge broker that is not given up. It gets them from the segment's
  former matcher or, without one (a first segment, a hole), from all dispatchers, disconnected ones
  included (`handover.py`); earlier publications wait. A restarted broker requests the same
  subscriptions under the same names (`mqtt/front_end/network.py`), so the matchers' rows of its
  earlier incarnation stay valid until they are stored anew. A result is passed on within a second,
  or matched again, so a session that moves is at one of its edge brokers.
- A session that moves takes along a summary of the publications that each front end had sent it
  (`had`): a retransmitted publication may come to a broker for the first time although the session
  got it before. The session leaves no unsettled publication behind: a broker that owes its client
  an acknowledgement keeps it.
- A flush has an order (`runtime/driving/flushing.py`, `Phase`): deliveries into sessions, the
  journal, neighbours, clients. No neighbour or client sees a change that could still be lost. While
  a sliced fan-out takes several flushes, nothing counts as settled (`settling.py`).

`tests/seeds/restarts/random_kills.py` kills brokers at random and checks at every settlement that
all subscribers have the publication, `tests/seeds/restarts/random_restarts.py` does so for
BlueDove, with several brokers at once; `tests/seeds/ack_tracker/random_ack_tracker.py` for OctopiA,
TID and DYNATOPS, on a live network in virtual time (`tests/runtime/virtual_loop.py`: all but
sockets and the clock), with cut cables, hangs and stalls; `tests/seeds/sessions/random_sessions.py`
under MQTT clients that move, ask elsewhere, share and hang up;
`tests/runtime/storage/test_ack_tracker.py` with processes; for BlueDove
`tests/overlays/bluedove/test_ack_tracker.py` and `tests/live/`. The frames for a disconnected
broker are bounded: at 8 MB per link clients are not read any more, and after 60 s the broker counts
as dead, with the subscriptions behind it; or they go to disk:

Decisions
---------

- **A `Carrier` carries publications.** Drivers meter, hold, join and keep carriers, and do not read
  their routes. Publications that were not settled when a link is given up return to the machine
  (`Returned`), which sends them another way or drops them: on a tree no subscriber is left there,
  with cycles one may be. A BlueDove dispatcher's message to a matcher is no carrier: the dispatcher
  keeps the publications itself until they are matched and all edge brokers have them, and asks
  another matcher without an answer. As carriers, links would keep them a second time and return
  obsolete ones, and the simulator would charge a matcher as a router for what it charges as `Work`.
- **A life cycle is a literal table** (`broker/life_cycle.py`) where a machine has one: states
  across, inputs down, in each cell a method or that nothing is done; a missing cell raises at
  import, and a test draws the table into the module's docstring. The alternative is a decorator on
  each method that names its state and input: shorter, but without a readable table, and holes would
  show only when all are collected. The migration at a broker is no table: its state is four facts
  about a publisher beside the rows of the routing table, and one input changes several rows. A
  table would have more states than lines; tests explore it instead.
- **Acknowledged when settled; stored only for disconnected brokers.** Three designs were weighed.
  *Settled everywhere* needs no disk, and an acknowledged publication has arrived; but publishers
  to subscribers behind a dead broker wait until it is back or given up. *Store and forward at the
  first broker* (a journal record per publication, PUBACK at once, the record kept until all is
  settled) makes no publisher wait; but each publication costs a write, the publications of a killed
  first broker are delivered only when it is back, with its disk, also while every subscriber is
  present; and the brokers on the way hold unsettled publications, so what they cannot send needs a
  disk of theirs, too. Shoal combines them: the first design while all brokers are connected, the
  second at the gap: the broker before a disconnected neighbour writes the frames for it, and these
  count as settled. It costs nothing in normal operation (no write; the same 11 to 15 µs of
  processor
  time for each message, also with a disconnected neighbour), and one disk has only what could not
  be
  delivered anyway. When a broker has died, publishers go on, nothing is lost, and an operator need
  not act until it is back. So it is the default where there is a disk. Its prices: an
  acknowledgement still takes as long as the way to the farthest subscriber, a broker that hangs is
  noticed after 5 s (`silence_us`), and a broker that never comes back fills disks for a day.
  BlueDove keeps to the first design: its matchers and edge brokers handle dead brokers themselves.
  End-to-end acknowledgements between front ends would need to know the receivers, which no broker
  of a filter tree knows.
- **Filters travel and are stored as expressions**, not as SQL: microseconds instead of a parse, and
  exact where SQL has no syntax or a limit. For types that MessagePack lacks (bits of a trace
  session) a system's messages bring a `Form` (`broker/wire.py`).
- **`broker/` names no system, and messages live with their senders.** `broker/messages.py` has the
  messages of every broker; those between a client and its broker about a move are in `clients/`,
  those of tree brokers about their tables in `overlays/tree/`, tracing and migrations in the
  relocation's folder. A message carries the properties that links need (it `introduces`: it is sent
  before publications); a first broker's `mark` on a publication is read only by its system; the
  placeholder of a disconnected neighbour is a fact of the system (`placeholder`). `Advertise`
  counts
  a publisher's moves in every system, as publishers send it.
- **`Notify` instead of `Redirect`.** A move is one of several messages from a broker to a client's
  library (ping requests, refusals); a live driver maps it to its protocol's redirect.
- **A client's subscriptions that match together are one `Deliver`** that names them all: the client
  gets an event once.
"""
