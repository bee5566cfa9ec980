"""Links between brokers: in order, without loss, over connections that come and go.

Why nobody waits for a broker that is away
------------------------------------------

With `acknowledge = "stored"` (`[storage]`, trees) each link has a spool, a queue on disk
(`broker/links/spool.py`).

- Who is away for 2 s (`park_us`) is *parked*: what its link kept and somebody waits for goes to the
  spool, all else is dropped, and the session ends, so that both ends start afresh when it is back.
  What is in the spool is settled, for the neighbour it came from and so for the publisher: this
  broker alone has to bring it. It is written in `Phase.RECORD`, before anyone hears; a frame stays
  on disk until the neighbour has settled it.
- The spool is a part of the link's queue: while anything in it is unread, what comes goes behind
  it. So links keep their order, also through kills of either end; what may have been sent before is
  marked, and doors drop repeats.
- The neighbour's rows stay for as long as it is waited for (`absent_s`). A broker that starts knows
  none; for a neighbour that was there before (its spool's folder says so), has said nothing and is
  away after 5 s it says itself that it subscribes to everything
  (`overlays/tree/stand_in.py`): what nobody wanted is dropped there when it is back.
- What the disk does not take (a bound, a failure) stays in memory and unsettled; the door refuses
  more.

`tests/seeds/restarts/random_kills.py` plays both ways; `tests/runtime/storage/test_spools.py` does
it to processes.

How links end, and brokers come and go
--------------------------------------

- A link that is ended ends at both ends or has failed at both. It carries all until the end that
  wants it over has nothing left: what it sent is settled there, what came is settled here. Then it
  *rests*, sends nothing, and says so; if the other end has nothing either, that one ends the link
  there and then and says so. Connections keep their order, so whatever it had left comes behind,
  and the first end rests anew later. What is sent over a link while its end rests comes back
  (`Returned`). Nobody can do without that: two that end together must both stop sending before they
  know of each other.
- The last word may be lost: who said it answers until it is heard. Who has forgotten the session
  cannot settle it: failed. With spools the link comes up once more instead, for what is on disk.
- The overlay as it is now is a small file beside the journal (`overlay_file.py`), as it must be
  read before the machine is made; the network file is how it began. A link has the time at which it
  was opened on purpose, and what has ended stays in the file: so whoever still means that link is
  told, and one that is opened later is another.
- Brokers say where brokers are over every connection of a link, all at first and then what is news
  (`directory.py`): of two words the later stays. So that is known wherever the overlay reaches,
  needs no machine, and heals by itself.
- Who leaves goes step by step (`runtime/leaving.py`): clients are sent away, sessions handed over
  as if their clients had connected elsewhere and gone at once (`mqtt/federation/evacuating.py`),
  then the machine leaves (`Leave`, `Left`).
- On a tree one neighbour of the leaving broker takes its place: `overlays/coordination` says how
  the neighbours agree, and what happens when one of them dies meanwhile.
- Wherever tables turn without a word, what is not settled in the old direction goes again in the
  new one, before all else (`Recall`): else, should a broker be killed, it would come behind what
  was published later, and doors would take it for a repeat.
- Where links may make cycles they agree the same way (`overlays/graph.py`); the leaving broker goes
  on until nothing needs it. A BlueDove matcher hands its segments over, a
  dispatcher ends its links when nothing is under way.

`tests/seeds/networks/test_random_changes.py` has brokers that join and leave under churn, several
at once, also neighbours; `test_random_broken_leaves.py` breaks a broker or a link, old or new, at
some moment of a leave, and `tests/exploration/test_leaves.py` each link of three brokers at every
moment, in every order of messages.

`tests/broker/links/test_ending.py` plays ends under random breaks;
`tests/live/systems/test_joining_and_leaving.py` does it to processes.

Decisions
---------

- **Two machines for links.** `simulation/links/reliable.py` resends what a lossy link drops, by
  timers; over TCP nothing is lost but the connection's end, so `broker/links/session.py` agrees
  with the other end on where to go on, or to start afresh. A message is acknowledged when the
  broker has handled it, and what is sent and not acknowledged fits a window: so a broker may hold
  back what comes from elsewhere while one link is full, reads acknowledgements all the same, and on
  a tree nobody waits in a circle: what a broker waits for to be settled lies beyond the neighbour,
  never behind itself.
- **A link's session has a name that neither end has used before.** Every hello offers one, for the
  case that the two are not in one session: an end that begins anew under its old name can meet one
  that remembers it, and count from elsewhere.
"""
