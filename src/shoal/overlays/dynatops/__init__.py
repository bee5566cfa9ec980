"""DYNATOPS: topic trees on a structured overlay, kept short by moving users and brokers.

An *entry* is a publisher's edge broker, a *home* a subscriber's edge broker. A *view* is a version
of the configuration (as in virtual synchrony): the members, and their positions.

One invariant of views
----------------------

All messages about topics belong to a view, and in a view there is one path from each broker to each
other. A broker goes from one view to the next and never back, drops messages of an earlier one and
keeps early ones; over a link that broke it sends nothing more in that view. So of an entry's
messages to a home over a root in one view a prefix arrives, in order. In the next view the entry
retransmits the publications that have not arrived everywhere, in order, and homes drop duplicates
by the numbers that the entry gave. With order per publisher, publications over several roots wait
at their homes until their turn (`topics/turns.py`). No more is needed for order, joins, deaths and
changes of positions; no step of a change needs agreement (`members/`): of two views the later one
is valid, and a broker that is not in it asks to join.

A root sends nothing in a view before every member has announced all its subscriptions there
(`topics/interests.py`), so a publication cannot miss a subscription that was settled in an earlier
view. A subscription is settled when all roots that may need it have it. A link between two live
brokers that is cut for longer than its timeout blocks publications over it.

Decisions
---------

- **A root names the homes of each publication.** So brokers on the path need no consistent state.
  The price is a round of messages between all pairs of brokers at each join or leave. The
  alternative, tables at the brokers of a tree as in the paper, would have to be repaired along
  every changed path, under load, and by agreement.
- **Every change of the ring is a view.** The alternative for brokers that change places is the
  paper's four steps with two planes: publications continue in the old plane while the tables of the
  new one are made, so there is no pause; but each step waits for all brokers, a death in one needs
  an abort, and order needs a marker for each topic. Here a change takes as long as a join, some
  round trips in which publications wait, and needs no protocol of its own.
- **Clusters behind gateways are a structure, too** (`structures/gateways.py`; the system `hybrid`,
  section 7). Positions determine the clusters and their gateways: swaps gather brokers with the
  same topics, and a gateway's death is a view like any other, in which the next of its cluster is
  the gateway. The alternative, clusters that gossip and elect gateways, which alone are in views,
  needs a second membership, a second takeover, and acknowledgement tracking between the two; swaps
  find clusters as good as those made from scratch by likeness (to 0.3 % of the messages).
- **Planning and making views are separate.** With `manager = "pairwise"` the brokers that cost most
  propose swaps (`reconfiguration/pairs.py`), each by what it knows of its own topics; the maker of
  views makes one of the proposals that do not exclude each other.
"""
