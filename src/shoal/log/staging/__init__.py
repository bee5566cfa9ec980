"""Rows that wait at brokers until a Spark batch commits, and are then published once.

A task stages its rows at one broker, as an *attempt* with a random name. The batch's commit names
the attempts that count, of all brokers; each broker publishes its part of them.

| step | call of the commit | at the broker |
| --- | --- | --- |
| 1 | `offer` to each broker | keeps its attempts beyond their age; a kept list, if any |
| 2 | `decide`, at the query's home, unless a list is kept | the first list stands |
| 3 | `publish` to each broker, until it is done | its part of the list, from where it was |

Invariants:

- One list for each batch of a query stands, whichever attempts later commits bring: the home keeps
  it on disk before any broker publishes.
- A broker publishes the rows of its part in order and each once, also after a kill: see
  `shoal.mqtt.row_publisher` for the journal, and `PartState.logged_from` for the log.
- A broker keeps the last batch of each query. An earlier batch is published: Spark begins a batch
  when the commit of the one before has returned.
- Attempts that no list names are removed with the query's next list, or with age. Attempts that
  were offered do not age, since a list elsewhere may name them.

| failure | outcome |
| --- | --- |
| a task or the driver dies before the offer | its attempts age; Spark stages others |
| the driver dies after the decision | the repeated commit finds the list, and finishes it |
| a broker dies | callers wait for it and ask again; rows that were staged are on its disk |
| a broker has lost an attempt of a list | the commit fails and names it, and nothing is skipped |
| a full disk, or too many staged rows | the task fails with the reason |

Two variants were weighed. The driver could publish the rows itself in one transaction for each
broker: two brokers then decide apart, and a repeated batch whose rows Spark spread otherwise loses
some of them and repeats others. Brokers could agree by a protocol among themselves: that adds a
vote between brokers that need not know of each other; one home needs none, and a batch waits while
its home is down, as it waits for any broker that has a part.
"""
