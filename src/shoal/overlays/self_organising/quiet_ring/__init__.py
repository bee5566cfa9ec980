"""How a cycle of brokers exchanges one of its links for another.

Why nothing is lost when links are exchanged
--------------------------------------------

A new link closes a cycle, and another link of it goes (`overlays/self_organising/quiet_ring/`).
Brokers beside the cycle change nothing: in whatever way it is walked, it is in the same direction
from outside.

- The brokers of the cycle take in only what comes over it (`Hold`), until nothing is under way
  between them: one walk down stops them, one up and one down flush, and bring what each table must
  know to turn (`tree/turning.py`). The last two walks agree on the way, the end of the new link
  that agrees last decides, and its word goes both ways before all else. Four messages for each
  link, none beside the cycle, no table said again.
- What a broker of the cycle has sent towards the link that goes, and is not settled, it sends again
  over its other link, before all else (`Recall`): so none of it comes behind what was published
  later, whoever is killed then, and nobody waits for the link that goes. A custody knows whence
  its publication came, and nothing goes back there. The price: what waits for a broker that is
  away, and is not on disk, goes again with each exchange.
- What is held back is not handled, so custody stays with whoever sent it. What else would change
  tables (links, timers) waits, too, and comes first.
- Who has not agreed may give up alone: nothing can have been decided. Who has agreed asks the other
  way round the cycle when a link of it is gone. One fault leaves the others in one piece, so they
  end alike; after several, "it is done" holds against "it was given up" when they meet, and tables
  are said again over the links that come and go then.
- Whether a link belongs to the tree both its ends remember, with the time: when it comes up they
  greet, and the later word holds. So a broker that was away, or has started anew, brings no link
  back that went meanwhile.
- Which links belong to the tree, and the last exchanges that were done, a broker asks its driver to
  remember (`links/memory.py`) before anybody hears of it. So who is in doubt asks the first broker
  when its link to it is up again; and who starts again hears in the greeting, from any of the
  cycle's brokers, of the exchange that it missed, and takes no publication before it has the new
  link's tables.
- "It is done" may come too late: the old link has since gone for another, or other links of the
  cycle have. Who notices says that the exchange is void, both ways round the cycle, and who has
  done its part undoes it (`links/late_verdicts.py`). No two clocks are compared for that: a verdict
  says until when, by any clock, its links had changed before.  Two that come too late at once may
  each take a link of the other's cycle: each broker on both cycles hears one first, and takes the
  other for void.  What had been said over an old link may come back over the new one:
  `overlays/tree/hearsay.py` keeps it from hiding a client.
- If all brokers of a cycle are killed as the first decides, both links may be remembered.
  Broadcasts then come round from both sides; the last link of the cycle by name goes, after a word
  has gone round it (`cycles.py`).
- Publishers move meanwhile (`publishers = "grape"`), but no move crosses an exchange: before a
  publisher is sent away its path is reserved, two messages for each link, and a broker takes part
  in one or the other; who comes second is refused, and tries again with what it learns then. Of a
  publisher those know most moves that are nearest to it, and turning keeps that so.
- A neighbour that is lost for 10 s is replaced by one behind it (`healing.py`): both have just been
  beside the lost one, so they are in different parts, and if it lives it agrees itself. It hears of
  it in the greeting when it comes back.

`tests/exploration/test_exchanges.py` plays three and four brokers in every order of messages with
one fault at every moment, `test_moves_and_exchanges.py` a publisher that moves meanwhile;
`tests/seeds/faults/random_exchanges.py` exchanges links all the time and aims faults at the cycles;
`tests/seeds/restarts/random_restless.py` kills live brokers in virtual time while clients publish,
and asks at every settlement who has it; `tests/live/` does it to processes.

Decisions
---------

- **The ring is quiet while links are exchanged.** Two other designs were weighed. *Markers and a
  gate*: old and new links are both there, a marker on each way closes the old one, and what
  overtakes it waits at a gate for each publisher and direction. Nobody pauses; but tables are in
  two versions at once, each Subscribe and Unadvertise under way must be sorted into one of them,
  and a fault leaves gates half open. *Slides*: the new link is reached by moving one end of the old
  one by one broker at a time. Each step is small and concerns three brokers, as when a broker
  leaves; but every step says tables, there are as many as links lie between, and a fault in the
  middle leaves a tree that nobody wanted. The quiet ring has one version of each table, one moment
  at which it turns and one broker that decides. Its price is a pause of about three walks round the
  cycle, at its few brokers, and that a broker which has agreed waits while the deciding one hangs:
  until that is back or given up.
"""
