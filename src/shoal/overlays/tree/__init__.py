"""Content-based routing on a tree; the baseline of the others.

One invariant of the routing tables
-----------------------------------

A broker has forwarded a subscription to neighbour *n* exactly when the subscription did not come
from *n* and overlaps an advertisement that did. Every operation (`follow`, `release` in
`overlays/tree/propagation.py`) restores it; links keep order and every change is said explicitly,
so the receiver's table mirrors the sender's. `overlays/tree/oracle.py` computes the same tables
from the global picture and compares.

With `covering = true` what it would have forwarded to *n* is what *n* wants, in a covering set of
*n*'s own, and *n* is told what is kept there (`telling.py`). All else is as it was, as it changes
only what is wanted; what comes to be told is said before what is taken back, so *n* never knows
less than it needs. A row stands for 256 others at most, as many are said when it goes, and who
cannot be placed within bounded work is told. Where tables turn without a word, rows that others
covered go along, both ends of a new link know which of them the other has, and what covers what now
is said behind that.

Decisions
---------

- **A broker that leaves is contracted into one of its neighbours** (`overlays/coordination`): each
  other neighbour hangs its part of the tree on that one. The other design was a series of exchanges
  of links, one neighbour after the other, as where links are exchanged for their costs: nothing new
  to prove, but a pause for each, and tables that turn at the leaving broker only to be forgotten.
  The price is a neighbour with many links where one with many leaves.
- **Covering is at the link's edge.** A set for each neighbour stands between what it wants and what
  it is told, so moves, exchanges and leaves go on as they did. The other design was one order of
  all rows of a table, in which a row is forwarded if none above it is: filters are compared once,
  not for each neighbour; but rows from the neighbour itself do not count for it, so each row needs
  another one above it for each direction, and all of them change when a row turns. Covering is off
  unless a file says otherwise: the papers' figures and all messages that are predicted are without
  it.
- **Unions are made where their parts' clients are** (`overlays/merging.py`), and are subscriptions
  of that broker's from there on: covering keeps their parts from being told, and where tables turn
  without a word both ends know them by the same names. PADRES' design merges at each broker on the
  way, for each neighbour: fewer rows where many brokers ask for nearly the same. But such a row is
  nobody's, must be said anew with each of its parts, and must come apart before a table turns. With
  quotes and flights one subscription to all covers the rest after a hop or two, and there is
  nothing left to merge.
"""
