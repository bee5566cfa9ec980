"""Virtual time: brokers, links, clients and faults.

Decisions
---------

- **One event per hop in the simulator.** A broker's queue is known when a message arrives, so it is
  handled at once under the time its turn comes. A crash therefore takes effect between messages.
"""
