"""Publications of a loaded cluster in compiled code, to the microsecond as its machines have them.

Between changes of the membership nearly all events of a run are of six kinds: a publication comes
to its dispatcher, goes to a matcher, is matched, and is answered, delivered and confirmed. `kernel`
has these events, with the arithmetic and the draws of the machines; `running` lets the machines
have all others (gossip, load reports, timers) in between, in the order of one event queue. An event
that changes the membership, or makes a dispatcher send a publication again, is preceded by
`leaving`: all state goes back to the machines, which run until the cluster is plain again (`plain`,
`entering`).

| event | handled by | state that it needs |
| --- | --- | --- |
| publications, their matches, answers, receipts | `kernel` | `arrays` |
| gossip, pulls, requests to join | machines | the broker's input queue |
| load reports and their timer | machines | tallies of queues; a dispatcher's loads |
| a dispatcher's tick | machines, if nothing is overdue | ages of publications |
| everything else | machines, after `leaving` | all |

Deliveries to subscribers leave no trace in the kernel, since a run measures responses.
"""
