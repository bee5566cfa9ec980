"""Link reconfiguration: a cycle of brokers exchanges one of its links for another.

Why nothing is lost when links are exchanged
--------------------------------------------

A new link closes a cycle, and another link of the cycle is removed. Brokers outside the cycle
change nothing: they reach its brokers by the same neighbour, whichever way the cycle is walked.

- The brokers of the cycle accept only input over the cycle (`Hold`), until nothing is in transit
  between them: a first pass down the cycle quiesces them, a pass up and one down flush, and carry
  the facts for each table's turn (`tree/turning.py`). On these two passes the brokers agree; the
  end of the new link that agrees last decides, and its decision goes both ways before anything
  else. Four messages for each link, none outside the cycle, and no table is sent again.
- A broker of the cycle retransmits over its other link, before anything else, the publications that
  it has sent towards the removed link and that are not settled (`Recall`). So none of them is
  overtaken by a later one, even if a broker is killed then, and no sender waits for the removed
  link. An `AckTracker` knows the neighbour that a publication came from, and never sends it back.
  The price: publications that wait for a disconnected broker, and are not on disk, are sent again
  with each exchange.
- Held input is not handled, so its sender still tracks it. Other events that would change tables
  (links, timers) are deferred, too, and are handled first.
- A broker that has not agreed may abort alone: there can be no decision yet. A broker that has
  agreed asks the other way round the cycle when a link of it is lost, and waits up to 5 s where the
  part is cut off at both ends. One fault leaves the others connected, so they end alike, and so
  does a broker that is killed and back in time; after several faults "done" overrides "aborted"
  when brokers meet, and tables are synchronised over the links that come and go then.
- Both ends of a link keep whether it belongs to the tree, with the time: they greet when it comes
  up, and the later entry is valid. So a broker that was disconnected, or has restarted, does not
  bring back a link that was removed meanwhile.
- A broker writes its links and the last exchanges to disk (`links/memory.py`) before any other
  broker learns of them. So a broker in doubt asks the first broker when its link to it is up again.
  A restarted broker learns from the greeting of any broker of the cycle of an exchange that it
  missed, and accepts no publication before it has the new link's tables.
- The decision "done" may come too late: the old link has since been exchanged for another, or other
  links of the cycle have. A broker that notices this declares the exchange void, both ways round
  the cycle, and brokers that have installed it undo it (`links/late_decisions.py`). No two clocks
  are compared: a decision carries the latest change of its links, by any clock. Two late decisions
  may each remove a link of the other's cycle: each broker on both cycles gets one first, and takes
  the other for void. An announcement over an old link may come back over the new one:
  `overlays/tree/alternate_routes.py` keeps it from hiding a client.
- If all brokers of a cycle are killed as the first decides, both links may be on disk. Broadcasts
  then come round from both sides; the last link of the cycle by name is removed, after a message
  has gone round it (`cycles.py`).
- Publishers move meanwhile (`publishers = "grape"`), but no move crosses an exchange: the path of a
  move is reserved first, two messages for each link, and a broker takes part in one or the other;
  the second is refused, and retried later. Brokers near a moved publisher know the highest count of
  its moves, and turning preserves that.
- A neighbour that is lost for 10 s is replaced by one behind it (`healing.py`): both were linked to
  the lost one, so they are in different parts of the tree, and if it is alive it agrees itself. It
  learns of the new link in the greeting when it reconnects.

`tests/exploration/test_exchanges.py` plays three and four brokers in every order of messages with
one fault at every moment, `test_moves_and_exchanges.py` a publisher that moves meanwhile;
`tests/seeds/faults/random_exchanges.py` exchanges links all the time and aims faults at the cycles;
`tests/seeds/restarts/random_restless.py` kills live brokers in virtual time while clients publish,
and checks the deliveries of each settled publication; `tests/live/` does that to processes.

Decisions
---------

- **The cycle is quiesced while links are exchanged.** There are two alternatives. *Markers and
  buffers*: old and new links are both up, a marker on each path closes the old one, and
  publications that overtake it are buffered by publisher and direction. There is no pause; but
  tables have two versions at once, each Subscribe and Unadvertise in transit must be sorted into
  one of them, and a fault leaves buffers half open. *Slides*: one end of the old link moves by one
  broker at a time until it is the new link. Each step is small and concerns three brokers, as in a
  leave; but every step synchronises tables, there are as many steps as links lie between, and a
  fault in the middle leaves an unintended tree. The link reconfiguration has one version of each
  table, one moment at which it turns, and one broker that decides. Its price is a pause of about
  three passes round the cycle, at its few brokers, and that brokers which have agreed wait up to
  5 s while the deciding one is cut off.
"""
