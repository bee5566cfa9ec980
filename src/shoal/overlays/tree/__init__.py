"""Content-based routing on a tree of brokers; the baseline of the other systems.

One invariant of the routing tables
-----------------------------------

A broker has forwarded a subscription to neighbour *n* exactly when the subscription did not come
from *n* and overlaps an advertisement that did. Every operation (`follow`, `release` in
`overlays/tree/propagation.py`) restores it; links keep order and every change is sent explicitly,
so the receiver's table mirrors the sender's. `overlays/tree/oracle.py` computes the same tables
from the global picture, for comparison.

With `covering = true` the subscriptions that the invariant names are those that *n* *wants*. They
are in a covering set of *n*'s own, and the broker forwards only the kept ones
(`subscription_forwarding.py`). Additions are sent before removals, so *n* never has less than it
needs. A row covers at most 256 others, as they are all sent when it is removed. A subscription that
cannot be placed within bounded work is forwarded uncovered. When tables turn silently, covered rows
are handed over, both ends of a new link know the rows that the other has, and covering is
recomputed afterwards.

Decisions
---------

- **A leaving broker is contracted into one of its neighbours** (`overlays/coordination`): each
  other neighbour links to that one. The alternative was a series of link exchanges, one neighbour
  after the other, as for link costs: nothing new to prove, but a pause for each, and tables that
  turn at the leaving broker only to be dropped. The price is a neighbour with many links if a
  broker with many links leaves.
- **Covering is at the edge of each link.** A set for each neighbour stands between the
  subscriptions that it wants and those that are forwarded, so moves, exchanges and leaves need no
  change. The alternative was one partial order of all rows, in which a row is forwarded if none
  above it is: filters are compared once, not for each neighbour; but rows from the neighbour itself
  do not count for it, so each row needs another one above it for each direction, and all of them
  change when a row turns. Covering is off by default: the papers' figures and all predicted message
  counts are without it.
- **Unions are made at the clients' edge broker** (`overlays/merging.py`), and are subscriptions of
  that broker's from there on: covering suppresses their parts, and when tables turn silently both
  ends know them by the same names. PADRES merges at each broker on the way, for each neighbour:
  fewer rows where many brokers have nearly the same subscriptions. But such a row has no owner,
  must be sent anew with each change of its parts, and must be split before a table turns. With the
  quotes and flights workloads one subscription to everything covers the rest after a hop or two,
  and nothing is left to merge.
"""
