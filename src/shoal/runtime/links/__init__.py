"""Links between live brokers: who connects to whom, and what came over them.

Of two brokers that the network file links, the one with the smaller name connects, so that there
is one connection; it tries again with growing pauses for as long as the broker runs.  A link that
was opened on purpose is connected from either end, wherever the other is known to be.  One that
lasts is remembered (`storage.overlay_file`), and so is one that has ended: whoever still means it
is told so.

A broker whose network file links it to this one, where this one's does not, is refused, with mutual
TLS also one that cannot prove its name.  A link that was opened on purpose is taken up from every
broker that is known to be in the network, and one that lasts from others, too: they join.
"""
