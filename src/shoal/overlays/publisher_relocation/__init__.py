"""The tree with publishers that move: the parts that POP and GRAPE share, and both systems.

Why nothing is lost when a publisher moves
------------------------------------------

- The publisher pauses and sends a marker to its source behind its last publication.
- The update goes from target to source and turns advertisements; subscriptions that it makes
  superfluous are only marked, because publications from the source may be in transit to them.
- The complete message goes from source to target behind those publications; marked subscriptions
  are removed as it passes. When it reaches the target, all subscriptions are there and the
  publisher resumes.

Two messages per link of the path. There is no rollback after a failure:

- Only the publisher knows its place. It numbers its attempts, advertisements carry the number, and
  of two announcements about a publisher the one with the higher number is valid, in an update, a
  flood or the synchronisation of a link.
- A move that fails (the path broke, the target is lost, 20 s without an answer) is followed by a
  move back over the same path; when both ends fail they are tried in turn. An application notices a
  longer delay.
- A move that was not whole leaves claims in doubt: brokers do not forward them. A publisher that
  stays at its broker (it cannot go back, or is back) confirms that under the number of that move.
- A broker of the path may have left before the move came: the move goes round it, as the tables
  have turned. A leaving target sends the publisher back.
- Rows wait, so that no subscription is retracted meanwhile: at a broker that the publisher left,
  until the update turns them; at a break, if a move has just turned them towards it. After 30 s
  they are removed.

`tests/exploration/` plays a move over three brokers in every order of messages, with one fault at
every moment; `tests/seeds/` runs it under churn, loss, reordering, and with faults aimed at moves;
`simulation/judging/outages.py` defines the losses that a fault may cause, and the judge checks
them.

On the live network an MQTT client's *front end*, its edge broker, is the publisher: it runs
`clients/publisher.py` for it, and sends requests to the broker of its publisher over a forwarding
channel, which is as reliable as a link, and which no machine knows. Only when a distant broker dies
must the front end decide: it retransmits to its own broker the publications that the other had not
handled, marked, and front ends drop duplicates. A client that follows is redirected when the new
broker has handled everything, and has agreed (`mqtt/federation/moving.py`, as for clients that
operators move); the client sends unacknowledged publications again there. The old broker closes
only its side and accepts the client's acknowledgements, before it exports the session
(`mqtt/federation/session_transfer/redirecting.py`).

Decisions
---------

- **Relocation is composed, not derived from.** A `Relocation` has a tree, its migrations and a
  `Tracer`, and passes each the events of the others; the tracer gets the single operation to send a
  publisher. So a system that changes links under moving publishers passes it another operation,
  which may refuse. The alternative is a chain: each part a strategy that wraps the next, and
  handles its own inputs. But the events of a tracer (a publisher has turned, has left, is nowhere)
  are no inputs; the migrations and the tree derive them from inputs, and each layer would have to
  guess them from the messages.
- **The migration is above `broker/`**, as it changes a tree's tables. The client's half
  (`clients/publisher.py`) knows no overlay and stays below.
- **A failed migration is a move back, decided by the publisher.** The alternative is a rollback
  among the brokers: an abort message from a break to both ends, with each broker restoring its
  state. It needs the old state at every broker, a decision for the case that source and target are
  cut off from each other, and another for the abort that is itself cut off; the publisher reaches
  both ends anyway, and a move back is no new protocol. Its price is that rows are held for a while
  after a failure.
"""
