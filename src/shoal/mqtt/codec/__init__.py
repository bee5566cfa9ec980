"""The MQTT codec: bytes to packets and packets to bytes.

Decisions
---------

- **Shoal has its own MQTT codec.** The compiled package `mqtt5` reads and writes plain PUBLISH
  packets about twice as fast (`benchmarks/bench_mqtt_codec.py`), six times with four properties.
  But it has no 3.1.1, panics on bad UTF-8, accepts U+0000, DUP at QoS 0 and reserved subscription
  options, and gives no reason codes. This codec reads a PUBLISH in one to two microseconds, a
  fraction of the cost of routing it.
"""
