"""The story of a message: spans of traced messages at each broker, from publisher to subscribers.

A message is traced if its publisher flags it with the user property `$trace` (its value is a label
of the publisher's choice), or if an operator's sample chooses it (`shoal trace`). The broker at
which the message enters decides; the flag travels with the publication (`Publication.traced`), and
not with the message that subscribers get.

| span | at | contents |
| --- | --- | --- |
| entered | the first broker | client, user, QoS; when everything downstream had acknowledged |
| hop | each broker | the neighbour that it came from, time of handling, next hops |
| client | each subscriber's broker | filter, verdict with the values, sent, queued, acknowledged |

Messages that are not traced cost a look at one field per hop and per acknowledgement. A broker
keeps the last 500 traced messages, with up to 100 subscribers of each; flagged messages beyond 20 a
second are not traced, so no client can make a broker busy with spans.

A trace is kept by each broker for itself and put together when somebody asks (`story.py`), because
a collector in the middle would be one more thing that can be down. Times are those of the brokers'
own clocks; a hop that would arrive before it was sent is shown with the difference.
"""
