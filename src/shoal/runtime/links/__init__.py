"""Links between live brokers: dialling, and the messages that came over links.

Of two brokers that the network file links, the one with the smaller name connects, so that there is
one connection; it tries again with growing pauses for as long as the broker runs. Either end dials
a link that was opened on purpose, if it knows the other's address. A link that lasts is recorded
(`storage.overlay_file`), and so is a link that has ended: a broker that still uses it is told so.

A broker is refused if its network file has a link to this one that this one's file lacks; with
mutual TLS also a broker that cannot prove its name. A link that was opened on purpose is taken up
from every broker that is known to be in the network, and one that lasts from others, too: they
join.
"""
