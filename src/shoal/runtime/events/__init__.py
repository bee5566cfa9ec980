"""Events of one broker, as a stream over HTTP: state, figures, happenings, alerts, worst clients.

`GET /events` at the admin port is a stream of server-sent events. It begins with `broker`, `alerts`
and the happenings that the reader lacks, and goes on with changes:

| event | content | when |
| --- | --- | --- |
| broker | name, system, version, listeners, place, known brokers | first, and when it changes |
| figures | rates, load, memory, disk, delivery delay, a row for each link | each second |
| alerts | all current alerts, with time, effect and next step | first, and when one comes or goes |
| happened | a move, or a reason to stay; a takeover, a join, an order, … | as it comes |
| dropped | a message that a client will not get, with the reason | as it comes |
| top | the clients that lose or wait most | each 5 s |

`happened` and `dropped` have an identifier; a reader that reconnects gives the last one as `since`
and gets what came after it, as far as the broker still has it. The other events are whole states.

Events cost nothing per message. Counters are read once a second. Happenings and drops are bounded
in number, and in rate: events beyond the rate are counted, and the next event carries the count. A
reader that does not read is closed after 10 s; it costs the broker the ring that all readers share.

A stream of states with identified happenings was chosen instead of one numbered log of everything:
figures and alerts need no replay, so a reader that returns after an hour gets one screen of data.
"""
