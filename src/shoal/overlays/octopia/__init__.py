"""OctopiA: brokers as the product of a tree and a complete graph, routing around congestion.

One invariant of OctopiA's copies
---------------------------------

Each cluster that a publication owes is entered by exactly one copy, or carried as a bit by exactly
one (`overlays/octopia/ways/copies.py`), so no copy is duplicated or loops, whichever outputs are
congested. In a cluster each broker owns a versioned table, which includes the region that its
broker links up to, always a lower one: so updates in any order give all brokers the same tables,
and the links that are up form a tree. A broker that has lost its parent links to its nearest living
ancestor, by labels alone, and a host enters a cluster by the living broker nearest to a dead one.
Unsettled publications of a lost link are returned and take another path. A publication without a
path is kept, unsettled, for 10 s (`keeping.py`), in its order, and then counts as settled: a live
broker that is unreachable for longer misses it. A timer counts quarters of that, not the clock, so
that a pause of the keeping broker does not use up the timeout.

A growing cluster is one with brokers that are dead so far: a joiner links up to brokers that were
there before, so no path changes when a broker joins. When a broker leaves, paths change, without
loss, duplicates or reordering: entries change behind a probe of all earlier publications
(`sweeps.py`); in the cluster's tree one neighbour takes the leaving broker's place, and all other
paths stay as they are (`departing.py`). The same holds when a dead broker is back, and brokers that
linked up past it return to it: a probe takes the old path, and the announcement comes back there
(`relinking.py`). A broker that has lost its parent holds input from the next one until a probe has
confirmed that publications from the lost link have come by the detour.

A restarted broker has no tables at first. Its neighbours send it nothing before it has announced
its tables (`known/exchange.py`). Hosts in other clusters and regions are the exception: they send
at once the publications that its earlier incarnation had not settled, and answer its requests. So
input from other clusters waits until its own cluster's tables are here (`known/early.py`).

A sharp bit (`known/bits.py`) describes with filters the publications that a cluster needs, and
never fewer. Wider filters are sent at once, and the subscriber's acknowledgement waits until hosts
have them; narrower ones later, as a whole. Over one link messages keep their order. A link that
comes up may have lost messages, so it makes the bits of its other end plain until they are sent
again; for a cluster with a new entry the bits of the new entry broker count, and plain ones while
there is none. So crashes, joins and leaves can only make bits wider. Publications in transit, kept
or returned carry their clusters with them, and need no bits.

A spread publication (`spreading.py`) owes regions of clusters: each broker on its path serves its
own region, and splits the rest among its neighbours, so each region is in exactly one copy again.

Publications that were numbered for a dead sequencer are lost with it, or on a detour: only their
carriers know which of them come back. So carriers mark their end (`order/clearing.py`): a broker
that has lost the sequencer announces that to all of its region, over the links on which it would
forward publications, and a broker with the announcements of all has all that there is. This holds
for any number of carriers in a row, in any order and at any speed: marked publications precede the
mark.

Decisions
---------

- **A host with congested outputs spreads each publication over one cluster's tree**, for all
  clusters (`dynamic = "spread"`): the paper's intra-cluster routing, which it leaves to the future.
  The alternative decides link by link: if the link to a tree neighbour is congested, the copy goes
  to a broker of the same region, down its tree, and comes back one region further. It keeps the
  invariant, too, but was measured without a gain: the other links are congested by the same
  publications, and each cluster's broker diverts its own copy, so as many cross as before and 75 %
  more are sent; the burst's mean delay was 4 % longer to 7 % shorter. Copies for several clusters
  travel as one only if they begin as one, at the host. The price: brokers on the path do not know
  other clusters' subscriptions, so all get a copy, and publishers' order is lost.
- **The cluster sends its filters before any publication** (`sharp_bits`): with a bit come the
  filters behind it, as a bounded covering set; a subscription that they do not cover is added. The
  alternative sends them on demand: bits are plain, and an entry broker that gets a publication
  without a subscriber in its cluster sends the filters to the host. It needs no messages for unused
  advertisements; but that broker must find the advertisement of each publication, and after each
  subscription that is not covered the bit is plain, or sent anew, all the same. Sending filters
  first costs one message for twenty about subscriptions if publishers advertise what they publish
  (measured, `benchmarks/bench_sharp_bits.py`), so there is little left to save. With too many
  filters the bit is plain. It is off by default: if publishers advertise everything, as for most
  MQTT clients, eight filters are soon too many, and their messages are useless; and if each cluster
  needs some of everything there is nothing to leave out.
- **A product grows broker by broker.** Rows have holes, which labels treat as dead brokers, and all
  brokers know all places: versioned entries that travel over any link (`roster.py`). Decisions that
  could conflict (a free place, the next leave) are made by the first broker that stays. The
  alternative adds a region or a cluster in one step: its brokers are started together, all brokers
  quiesce, and switch to the new labels at once. There is one version of labels at a time, and no
  hole; but all brokers pause for it, all new ones must be up, a fault in the middle leaves two
  overlays, and a single broker could not leave. The price of the chosen design is that a region is
  only as strong as the brokers that it has, and that no broker can leave while that first broker is
  disconnected.
"""
