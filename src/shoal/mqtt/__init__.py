"""MQTT 5 and 3.1.1, the server's side, sans-IO: bytes in, bytes and broker requests out.

Decisions
---------

- **The MQTT side matches topics itself.** A topic filter becomes a filter of the network that lets
  through at least what it matches; which client gets what, at which QoS and with which identifiers,
  is looked up where the clients are. In a network a publication goes through the machine even to
  clients of the same broker: one path, whoever is moved.
- **What one read brings is delivered together.** Messages of QoS 0 are gathered until the read ends
  or anything else happens, matched as runs of one topic, and each session gets its share as a list
  of packets: a delivery costs an entry in a list. What a publisher sent goes on in the bytes it
  came in, from the first broker to the last client, and attributes are read once, where it enters
  the network; a property test holds the result against one by one, to the byte.
- **Values of user properties have no type in MQTT**, so text that is a JSON number is a number,
  `true` and `false` are booleans, `'…'` is a string without its quotes, all else a string; queries
  (`topic?n>25`) read values the same way.
- **`?` begins a query only if a comparison follows it**, since MQTT allows the character in topics.
- **A topic filter that MQTT does not allow ends the connection (0x81)**, as any malformed packet
  does; a query or SQL behind it that does not parse is refused in SUBACK (0x8F), and the other
  filters of the packet are granted.
"""
