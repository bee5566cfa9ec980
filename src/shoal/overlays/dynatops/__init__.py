"""DYNATOPS: topic trees on a structured overlay, kept short by moving users and brokers.

One invariant of views
----------------------

All that is said about topics belongs to a view (who stands where), and in a view there is one way
from each broker to each other. A broker goes from one view to the next and never back, drops what
belongs to an earlier one and keeps what is early; over a link that broke it sends nothing more in
that view. So of what an entry sends to a home over a root in one view, a prefix arrives, in order.
In the next view the entry sends again what has not arrived everywhere, in order, and homes drop
what they have had, by the numbers that the entry gave. Where a publisher's order is kept, what goes
over several roots waits at its homes for its turn (`topics/turns.py`). That is all there is to
order, joins, deaths and changes of positions; no step of a change has to be agreed
(`members/`): of two views the later one holds, and who is not in it asks to be.

A root sends nothing in a view before every member has said all that it wants there
(`topics/interests.py`), so a publication cannot miss a subscription that was settled in an earlier
one. A subscription is settled when all roots that may see what it wants know it. A link between two
that live, cut for longer than it takes to be given up, holds back what goes over it.

Decisions
---------

- **A root names the homes of each publication.** So nothing has to be kept the same on the way. The
  price is a round of messages from each broker to each other when anybody comes or goes; the other
  design, tables at the brokers of a tree as in the paper, would have to be mended along every way
  that changed, under load, and to be agreed.
- **Whatever changes the ring is a view.** The paper's four steps with two planes were the other
  design for brokers that change places: there publications go on in the old plane while tables of
  the new one are made, so nobody pauses; but each step waits for everybody, a death in one needs an
  abort, and order needs a marker for each topic. Here a change takes what a join takes, some round
  trips in which publications wait, and is nothing new.
- **Clusters behind gateways are a structure, too** (`structures/gateways.py`; the system `hybrid`,
  section 7). Who is together, and who is the gateway, is where brokers stand: swaps gather those
  that want the same, and a gateway's death is a view like any other, in which the next of its
  cluster is the gateway. The other design, clusters that gossip and elect gateways, which alone are
  in views, needs a second membership, a second takeover, and custody between the two; swaps found
  clusters as good as those made from scratch by likeness (to 0.3 % of the messages).
- **Who plans and who makes views are apart.** With `manager = "pairwise"` brokers that cost most
  propose swaps (`reconfiguration/pairs.py`), each by what it knows of its own topics; whoever makes
  views makes one of those that do not exclude each other.
"""
