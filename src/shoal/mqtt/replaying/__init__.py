"""The past of a subscription: publications of all brokers' logs, by time, and then the live ones.

A SUBSCRIBE with the user property `$from`, or with `$from=…` in the query of its topic filter, gets
what brokers' logs have from that time on, chosen by topic and content at the brokers of the logs.
Each publication above QoS 0 that matches, and that was published after that time, reaches the
client once, and each publisher's come in order.

| module | content |
| --- | --- |
| `log_replay` | one subscription's past: merges the logs, finds the fence, goes on live |
| `log_source` | one broker's log, as a replay reads it |
| `log_replays` | all replays of a broker; questions to other brokers, and answers |
| `past_messages` | records as messages |
| `mqtt/sessions/live_gate` | live publications that are dropped, held or passed meanwhile |

How the two parts meet
----------------------

The subscription is installed as any other. While the past is read, live publications are dropped:
the logs have them, as a broker writes its log before it acknowledges. When all logs were read to
their ends, and every broker knows the subscription, each broker is asked for the greatest number
that it has given to a publication. The fence is above all of them. Numbers grow at each broker
(they follow its clock), the log has them, and they travel with the publication. So of the
publications below the fence the logs have all, and those above reach this broker live, because
they were published when every broker knew the subscription. From then on live ones above the fence
are held. Once the logs are read up to the fence, the held ones go to the client in one step, with
the record that the past is over.

| event | effect |
| --- | --- |
| the client reads slowly | nothing is asked for; the held ones overflow, are dropped, and a later fence is sought |
| the client disconnects | the replay stops; its places are in the session, and it resumes with the client |
| the session is transferred | the places go with the subscription; the target seeks a fence of its own |
| this broker is killed | places and messages in flight are in one batch of the journal; held ones are in the logs |
| a broker with a log is away | all waits for AWAY_US, then its past is given up, with a notice and `$gap` |
| a broker returns | it is asked again; it knows the subscription before it publishes |
| retention was faster, a log has a gap | a notice, and `$gap` on the next message |
| a publisher moves | its records are merged by time, as far as the brokers' clocks agree |

Decisions
---------

- **The log is the queue.** The other sketch installs the subscription, queues live publications in
  the session meanwhile, and drops those whose keys were in the past. The queue is bounded, so a long
  past loses live publications, or the bound grows with the past; keys must be remembered until the
  slowest copy has come, over kills and transfers. With the fence nothing is queued for longer than
  the last round trips, and one number decides for ever about late copies.
- **Logs are read by controls between front ends, not over HTTP.** The simulator has them, a broker
  needs no user at the others, no listener, and no further address. A log that is asked reads in
  slices (`shoal.log.slices`), one question at a time for each replay and broker.
- **`$share` with `$from` is refused (0x83).** A group shares publications that are made while it
  exists; its members would each get a part of a past that none of them asked for alone. A consumer
  that wants the past for several workers reads the log (`shoal log`, Spark).
- **Retained messages** come first, as at any SUBSCRIBE, but only those published before the begin of
  the past: the others are in it. Retain Handling 1 also means: the past only if the subscription is
  new.
- **A SUBSCRIBE that repeats an unfinished one** (same topic filter, content and `$from`) goes on with
  it, since client libraries subscribe again after each connect.
- **Overlapping subscriptions** of a client get a copy each until the past is over.
- **QoS** is the lower of the publication's and the subscription's; at QoS 0 the past comes as fast as
  the client's socket takes it, and nothing is dropped.
"""  # noqa: E501
