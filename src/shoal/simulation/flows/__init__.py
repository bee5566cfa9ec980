"""Publications of a simulated tree, forwarded by a compiled loop between the brokers' decisions.

Brokers of a tree forward a publication by their routing tables alone, and tables change only by
other messages. So a compiled loop takes a publication from broker to broker: it waits in the same
queues, costs the same work, counts in the same meters, and keeps the same order of events, to the
microsecond. All else is input of the real machines: a publication at its first broker, control
messages, timers, reports of the monitors. Between these the loop runs (`queue.FlowQueue`).

Invariant: a run with flows has the events of a run of `World`, in the same order, with the same
counters at each input of a machine. `tests/simulation/flows` compares both.

The loop gives an event back to the machine of its broker where more than the table decides:

| case | treatment |
| --- | --- |
| a traced publication whose tracer sends messages (POP) | the machine handles it |
| a traced publication whose tracer only notes it (GRAPE) | noted before the next input |
| a window of the load counters ends | the machine handles it |
| a table has changed since the publisher's last publication | its rows are read again |
| the order of rows in an answer is not known (`answer_order`) | the machine handles it |
| a change may alter the order of other rows (`keeps_order`) | the machine handles all later ones |

A world with flows has no faults, each of its clients one subscription, which stays, and each of its
brokers at most `MOST_NEIGHBOURS` neighbours.
"""
