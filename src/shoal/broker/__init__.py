"""The broker as a pure machine, and what it keeps until all is settled.

Why nothing acknowledged is lost when a broker is killed
--------------------------------------------------------

A publication of QoS 1 or 2 is *settled* at a broker when it is in the sessions of its local
subscribers and settled at every neighbour it was sent to. Only then does the client get PUBACK or
PUBREC, in its order.

- Each broker keeps what it sent until the neighbour has said that it is settled
  (`broker/custody.py`, `broker/links/outbox.py`), so one side of a killed broker still has what the
  other side lacks. Of an input a `Custody` counts the frames it caused; a link says which messages
  are settled beside how many are handled.
- A broker that comes back within `give_up_us` (60 s) knows no tables. Its neighbours keep its rows,
  stale, and what is for it; both ends say their tables anew and that this is all
  (`overlays/tree/exchange.py`); what was not said again goes. Until then a gate in the link lets no
  publication through, and the broker holds back those of its own clients: for a neighbour that the
  journal knows (`NeighbourPut`) until it would be given up, for one never seen 10 s.
- A pause of the process is nobody's silence (`runtime/driving/timing/pauses.py`): timers that come
  late wait for what the sockets hold, and by however much a loop is late with looking at its links,
  their silence is shorter, and who is away is given up later.
- While publications must wait, connections hold what clients send, within bounds, and answer pings
  (`mqtt/connection/connection.py`).
- Then all that was not settled is sent again, marked; doors drop what they have had
  (`mqtt/door/repeats.py`).
- A system that answers later than it is asked says so (`Unsettled`, `Settled`), and the custody
  waits. BlueDove's dispatchers do: a publication is settled when a matcher has matched it and all
  homes have it, a subscription when no publication can miss it. A home that comes back is sent what
  it had not confirmed. Where order is not kept (`keeps_order`; BlueDove with `order = "free"`),
  doors know repeats one by one.
- What BlueDove's matchers find is complete: whoever serves a place has every granted subscription
  that meets it, of every home that is not given up. It has them from who served before or, where
  nobody did (a first segment, a hole), from all dispatchers, those that are away included
  (`handover.py`); what comes before that waits. A broker that starts again asks for the same under
  the same names (`mqtt/door/network.py`), so what matchers have of its earlier life stands for it
  until it is stored anew. What was found is passed on within a second, or found again, so a session
  that moves is at one of its homes.
- A session that moves takes along what each door had sent it so far (`had`): what is sent again may
  come to a broker for the first time that the session had before it came. It leaves nothing
  unsettled behind: who owes its client stays.
- A flush has an order (`runtime/driving/flushing.py`, `Phase`): deliveries into sessions, the
  journal, neighbours, clients. Nobody hears of what could still be lost. While a message is handed
  to many, in several flushes, nothing counts as settled (`settling.py`).

`tests/seeds/restarts/random_kills.py` kills brokers at random and asks at every settlement whether
everybody has it, `tests/seeds/restarts/random_restarts.py` so for BlueDove, several at once;
`tests/seeds/custody/random_custody.py` so for OctopiA, TID and DYNATOPS, on a live network in
virtual time (`tests/runtime/virtual_loop.py`: all but sockets and the clock), with cut cables,
hangs and stalls; `tests/seeds/sessions/random_sessions.py` does so under MQTT clients that move,
ask elsewhere, share and hang up; `tests/runtime/storage/test_custody.py` does it to processes; for
BlueDove `tests/overlays/bluedove/test_custody.py` and `tests/live/`. What waits for a broker that
is away is bounded: 8 MB per link, then clients are read no more, and after 60 s it counts as gone,
with the subscriptions behind it; or it goes to disk:

Decisions
---------

- **What carries publications is a `Carrier`.** Drivers meter, gate, join and keep carriers, and do
  not read their routes. What was not settled when a link is given up comes back to the machine
  (`Returned`), which sends it another way or lets it be: on a tree nobody is left there, with
  cycles there may be. What a BlueDove dispatcher sends to a matcher is none: it keeps the
  publications itself until they are matched and all homes have them, and asks another when it hears
  nothing. As carriers links would keep them a second time, give back what is no longer theirs, and
  the simulator would charge a matcher as a router for what it charges as `Work`.
- **A life cycle is a literal table** (`broker/life_cycle.py`) where a machine has one: states
  across, inputs down, in each place a method or that nothing is done; a missing one raises at
  import, and a test draws the table into the module's docstring. The other design was a decorator
  on each method that names its state and input: shorter, but the table would be nowhere to be read,
  and holes would show only when all is gathered. Not a table: the migration at a broker, whose
  state is four facts about a publisher beside the rows of the routing table, with several rows that
  change at one input. It would have more states than lines now; it is explored instead.
- **Acknowledged when settled; stored only for who is away.** Three designs were weighed. *Settled
  everywhere* needs no disk, and what is acknowledged has arrived; but who publishes to subscribers
  behind a dead broker waits until it is back or given up. *Store and forward at the first broker*
  (a journal record per publication, PUBACK at once, the record kept until all is settled) lets
  nobody wait; but each publication costs a write, what a killed first broker had taken is delivered
  to nobody until it is back, if its disk is, also while every subscriber is there; and it does not
  end there: the brokers on the way hold what is not settled, so what they cannot send needs a disk
  of theirs all the same. What is built is the first while everybody is there, and the second at the
  gap: the broker before a neighbour that is away writes what is for it, and that counts as settled.
  It costs nothing while all is well (no write; the same 11 to 15 µs of processor time for each
  message, and as much with a neighbour away), and what depends on one disk is only what could not
  be delivered anyway. That is what one wants at three in the morning, when a broker has died:
  publishers go on, nothing is lost, and nobody must do anything until it is back. So it is the
  default where there is a disk. Its prices: an acknowledgement still takes as long as the way to
  the farthest subscriber, a broker that hangs is noticed after 5 s (`silence_us`), and one that is
  never coming back fills disks for a day. BlueDove keeps to the first: its matchers and homes have
  their own answer to who is gone. A further one, doors that acknowledge to the publisher's door end
  to end, needs to know who they are, which on a tree of filters nobody does.
- **Filters travel and are stored as expressions**, not as SQL: microseconds instead of a parse, and
  exact where SQL has no words or a limit. What MessagePack cannot say (bits of a trace session) a
  system's messages bring as a `Form` (`broker/wire.py`).
- **`broker/` names no system, and messages live with who speaks them.** `broker/messages.py` has
  what every broker says; what a client and its broker say of a move is in `clients/`, what brokers
  of a tree say of their tables in `overlays/tree/`, tracing and migrations in the relocation's
  folder. What links must know of a message it says of itself (it `introduces`: it is said before
  publications may come); what a first broker writes on a publication is a `mark` that only its
  system reads; who speaks for a neighbour that is away is a fact of the system (`stand_in`).
  `Advertise` still counts a publisher's moves: publishers say it, whichever system moves them.
- **`Notify` instead of `Redirect`.** Being moved is one of several things a broker tells a client's
  library (ping requests, refusals); a live driver maps it to its protocol's redirect.
- **A client's subscriptions that match together are one `Deliver`** that names them all: the client
  gets an event once.
"""
