"""MQTT packets: bytes in, packets out, and back.

Decisions
---------

- **An own MQTT codec.** The compiled package `mqtt5` reads and writes plain PUBLISH packets about
  twice as fast (`benchmarks/bench_mqtt_codec.py`), six times with four properties. But it has no
  3.1.1, panics on bad UTF-8, accepts U+0000, DUP at QoS 0 and reserved subscription options, and
  gives no reason codes. Ours reads a PUBLISH in one to two microseconds, a fraction of what routing
  it costs.
"""
