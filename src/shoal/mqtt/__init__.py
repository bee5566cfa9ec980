"""MQTT 5 and 3.1.1, the server's side, sans-IO: bytes in, bytes and broker requests out.

Decisions
---------

- **The MQTT side matches topics itself.** The front end turns a topic filter into a network filter
  that lets through at least the same publications. The broker that has the sessions decides which
  client gets a message, at which QoS and with which subscription identifiers. In a network every
  publication passes the broker machine, also when its subscribers are on the same broker, so that
  there is one path while publishers and sessions move.
- **The broker delivers the messages of one read together.** It gathers messages of QoS 0 until the
  read ends or another input comes, matches runs of one topic at once, and gives each session its
  share as a list of packets: a delivery costs one list entry. The bytes of a publication stay as
  the publisher wrote them from the first broker to the last client. Attributes are read once, at
  the edge broker. A property test compares the result with message-by-message delivery, to the
  byte.
- **Values of user properties have no type in MQTT**, so text that is a JSON number is a number,
  `true` and `false` are booleans, `'…'` is a string without its quotes, all else a string; queries
  (`topic?n>25`) read values the same way.
- **`?` begins a query only if a comparison follows it**, since MQTT allows the character in topics.
- **A topic filter that MQTT does not allow ends the connection (0x81)**, as any malformed packet
  does; a query or SQL behind it that does not parse is refused in SUBACK (0x8F), and the other
  filters of the packet are granted.
"""
