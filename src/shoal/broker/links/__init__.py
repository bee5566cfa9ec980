"""Links between brokers: in order, without loss, over connections that come and go.

Why no publisher waits for a disconnected broker
------------------------------------------------

With `acknowledge = "stored"` (`[storage]`, trees) each link has a spool, a persistent
retransmission queue on disk (`broker/links/spool.py`).

- After 2 s without a connection (`park_us`) the link spools: assured frames go to the disk, all
  others are dropped, and the session ends, so that both ends start a fresh one when the neighbour
  is back. Spooled frames count as settled, for the neighbour they came from and so for the
  publisher: this broker alone must deliver them. They are written in `Phase.RECORD`, before any
  acknowledgement goes out; a frame stays on disk until the neighbour has settled it.
- The spool is a part of the link's queue: while it has unread frames, later frames go behind them.
  So links keep their order, also through kills of either end; frames that may have been sent before
  are marked, and front ends drop duplicates.
- The neighbour's rows stay for as long as it is waited for (`absent_s`). A restarted broker has no
  rows; for a former neighbour (its spool's folder tells) that has not connected after 5 s it
  installs a placeholder that subscribes to everything (`overlays/tree/placeholder.py`): the
  neighbour drops publications without subscribers when it is back.
- Frames that the disk does not accept (a bound, a failure) stay in memory and unsettled; the front
  end refuses new publications.

`tests/seeds/restarts/random_kills.py` tests both modes; `tests/runtime/storage/test_spools.py` does
so with processes.

How links end, and brokers join and leave
-----------------------------------------

- An ended link has ended at both ends or has failed at both. It carries frames until the end that
  wants it to end has nothing left: its frames are settled there, the received ones here. Then this
  end *rests*, sends nothing, and announces it; if the other end has nothing either, it ends the
  link
  at once and announces that. Connections keep their order, so remaining frames of the other end
  come
  after its answer, and the first end rests again later. Frames that a broker sends while its end
  rests come back (`Returned`). The rest is necessary: two ends that end together must both stop
  sending before they know of each other.
- The last announcement may be lost: its sender repeats it until it is received. An end that has
  forgotten the session cannot settle it: the link has failed. With spools it comes up once more
  instead, for the frames on disk.
- The present overlay is a small file beside the journal (`overlay_file.py`), as it must be read
  before the machine is created; the network file is only the start. A link has the time at which it
  was opened on purpose, and ended links stay in the file: so an end that still uses such a link is
  told, and a link that is opened later is a different one.
- Brokers announce addresses of brokers over every connection of a link, all at first and then
  changes (`directory.py`): of two announcements the later one holds. So addresses are known
  wherever the overlay reaches, without the machine, and errors heal by themselves.
- A broker leaves step by step (`runtime/leaving.py`): clients are redirected, sessions handed over
  as if their clients had connected elsewhere and disconnected at once
  (`mqtt/federation/evacuating.py`), then the machine leaves (`Leave`, `Left`).
- On a tree one neighbour of the leaving broker is its successor: `overlays/coordination` has the
  agreement of the neighbours, and its failures.
- Wherever routing tables turn round without messages, unsettled publications of the old direction
  are sent again in the new one, before all others (`Recall`): otherwise, after a kill, they would
  come behind later publications, and front ends would drop them as duplicates.
- In overlays with cycles brokers agree the same way (`overlays/graph.py`); the leaving broker goes
  on until no broker needs it. A BlueDove matcher hands its segments over, a dispatcher ends its
  links when nothing is under way.

`tests/seeds/networks/test_random_changes.py` has brokers that join and leave under churn, several
at once, also neighbours; `test_random_broken_leaves.py` breaks a broker or a link, old or new, at
some moment of a leave, and `tests/exploration/test_leaves.py` each link of three brokers at every
moment, in every order of messages.

`tests/broker/links/test_ending.py` tests ends under random breaks;
`tests/live/systems/test_joining_and_leaving.py` does so with processes.

Decisions
---------

- **Two machines for links.** `simulation/links/reliable.py` retransmits frames that a lossy link
  drops, by timers; over TCP only the end of a connection is lost, so `broker/links/session.py`
  agrees with the other end on where to go on, or to start afresh. A broker acknowledges a message
  when it has handled it, and unacknowledged messages fit a window: so a broker may stop handling
  other links while one link is full, reads acknowledgements all the same, and on a tree brokers do
  not wait in a circle: the settling that a broker waits for lies beyond the neighbour, never behind
  itself.
- **A link's session has a name that neither end has used before.** Every hello offers one, for the
  case that the two are not in one session: an end that begins anew under its old name can meet one
  that remembers the old session, and count from elsewhere.
"""
