"""OctopiA: brokers as a tree times a complete graph, with a way round what is congested.

One invariant of OctopiA's copies
---------------------------------

Of a publication's clusters each is entered by one copy or carried as a bit by one
(`overlays/octopia/ways/copies.py`), so none comes twice and none goes round, whichever outputs are
congested where. In a cluster a table belongs to its home and has a version, and says to which
region its broker links up, always to a lower one: so any words in any order give everybody the same
tables, and any links that are up are a tree. Whose parent has died links to the nearest living one
above, by labels alone, and a host enters a cluster by the living broker nearest to the one that
died. What was unsettled on a lost link comes back and goes another way; what has none yet is kept,
unsettled, for 10 s (`keeping.py`), in its order, and then counts as settled: a broker that lives
and that no way leads to for longer misses it. Quarters of that are counted, not the clock, so a
pause of who keeps it is no end of its patience.

A cluster that grows is one with brokers that are dead so far, and who comes later links up to who
was there before: so nobody's way changes when a broker comes. When one goes, ways change, and
nothing may be lost, doubled or overtaken: entries change behind a probe of all that went before
(`sweeps.py`); in its cluster's tree one neighbour takes its place, and for all others the ways stay
as they are (`departing.py`).  So it is when somebody dead is back, and who had linked up past it
links up to it again: a probe goes the old way, and the word of it comes back there
(`relinking.py`).  Who has lost the one above it holds what comes from the next until a probe has
found that what was on the lost link has come round.

Who begins anew knows no tables at first.  Its neighbours send it nothing before it has said that it
knows them (`known/exchange.py`), but for hosts in other clusters and regions: these send at once
what its earlier life had not settled, and answer what it asks.  So what comes from other clusters
before it knows its own waits (`known/early.py`).

A sharp bit (`known/bits.py`) says with filters what a cluster wants, and what it says is never less
than that.  Wider is said at once, and who subscribes waits until hosts have it; narrower, later,
all of it anew.  Over one link words keep their order.  Where that is lost words may be, so a link
that comes up makes the bits of its other end plain until all has been said again; a cluster that
is entered elsewhere now has the bits of who is its entry, and plain ones while nobody is.  So
whatever dies, comes or goes can only make bits wider.  What is on its way, kept or given back has
its clusters with it, and asks for no bits any more.

A publication that is spread (`spreading.py`) owes regions of clusters: each broker on its way keeps
its own region, and splits what lies beyond among its neighbours, so each is in one copy again.

A gate that dies takes what was numbered for it along, or it is on its way round: only those who
carry that know what of it comes back.  So they mark the end of it (`order/clearing.py`): whoever
has lost the gate says so to all of its region, over the links on which it would pass something on,
and who has heard it of all has all that there is.  That holds for any number of carriers one after
the other, whoever notices first, and whatever is slow: what is marked is in front of the mark.

Decisions
---------

- **A host with congested outputs spreads each publication over one cluster's tree**, for all
  clusters (`dynamic = "spread"`): the paper's intra-cluster routing, which it leaves to the future.
  The other design was to do it link by link: where the link to a tree neighbour is congested, the
  copy goes aside to a broker of the same region, down its tree, and comes back one region further.
  It keeps the invariant, too, but was built and measured in vain: the links beside are congested by
  the same publications, and each cluster's broker sends its own copy aside, so as many cross as
  before and 75 % more are sent; the burst's mean delay was 4 % longer to 7 % shorter. Copies for
  several clusters travel as one only if they begin as one, at the host. The price: brokers on the
  way do not know what other clusters' brokers want, so all get a copy, and nothing is in order.
- **The cluster says what it wants before anything is sent** (`sharp_bits`): with a bit come the
  filters behind it, as a bounded covering set; a subscription that they do not cover is one more.
  The other design was to say it when it pays: bits are plain, and a broker by which a cluster is
  entered that got a publication nobody there wants tells the host the filters.  Where nothing is
  published nothing is said; but that broker must find what was advertised for each publication,
  and after each subscription that is not covered the bit is plain, or said anew, all the same.
  Telling it first costs one word for twenty about subscriptions where publishers promise what they
  publish (measured, `benchmarks/bench_sharp_bits.py`), so there is little left to save.  Where
  filters are too many the bit is plain.  It is off by default: where publishers promise nothing, as
  most MQTT clients, eight filters are soon too many, and the words for them are in vain; and where
  each cluster wants some of everything there is nothing to leave out.
- **A product grows broker by broker.** Rows have holes, which labels treat as dead brokers, and
  everybody knows all places: words with versions that travel over any link (`roster.py`). What
  would clash if two decided it (a place that is free, who goes next) the first broker that stays
  decides. The other design was to add a region or a cluster in one step: its brokers are started
  together, everybody holds still, and all turn to the new labels at once. There is one version of
  labels at a time, and no hole; but all brokers pause for it, all of the new ones must be there, a
  fault in the middle leaves two overlays, and one broker could not go. Its price is that a region
  is only as strong as the brokers that it has, and that nobody leaves while that first broker is
  away.
"""
