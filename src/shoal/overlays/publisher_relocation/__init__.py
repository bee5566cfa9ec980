"""The tree with publishers that move: what POP and GRAPE share, and both.

Why nothing is lost when a publisher moves
------------------------------------------

- The publisher pauses and sends a marker to its source behind its last publication.
- The update walks target → source and turns advertisements; what it makes superfluous is only
  marked, because publications from the source may still be under way to it.
- The complete message walks source → target behind those publications; what was marked goes as it
  passes. When it reaches the target, all subscriptions are there and the publisher resumes.

Two messages per link of the path. When something fails on the way, nobody rolls back:

- Only the publisher knows where it is. It numbers its attempts, advertisements carry the number,
  and of two words about a publisher the one with the higher number holds, in an update, a flood or
  a link that comes up.
- A move that fails (the path broke, the target is lost, 20 s without a word) is followed by a move
  back over the same path; when both ends fail they are tried in turn. An application notices a
  longer delay.
- A move that was not whole leaves claims in doubt: brokers do not tell others of them. A publisher
  that stays where it is (there is no way back, or this was it) says so, under the number of that
  move.
- A broker of the path may have left before the move came: it goes round it, as the tables have
  turned. A target that is about to leave sends the publisher back.
- So that no subscription is taken back meanwhile, rows wait: at a broker that the publisher left,
  until the update turns them; at a break, when a move has just turned them towards it. After 30 s
  they go.

`tests/exploration/` plays a move over three brokers in every order of messages, with one fault at
every moment; `tests/seeds/` runs it under churn, loss, reordering, and with faults aimed at moves;
`simulation/judging/outages.py` says what a fault may cost, and that is judged.

On the live network an MQTT client's *door*, its first broker, is the publisher: it runs
`clients/publisher.py` for it, and asks the broker where it publishes over a courier, a channel as
reliable as a link, of which no machine knows. Only when a distant broker dies must the door decide:
it asks its own broker what the other had not handled, marked, and doors drop of that what they have
had. A client that follows is told to go when the new broker has handled everything, and has said
that it may come (`mqtt/federation/moving.py`, as for clients that operators move); what it has no
word of it sends again there. The old one closes only its side and takes what the client still
acknowledges, before it gives the session away (`mqtt/federation/roaming/redirecting.py`).

Decisions
---------

- **Relocation is put together, not derived from.** A `Relocation` has a tree, its migrations and a
  `Tracer`, and tells each what it needs to know of the others; the tracer is given the one thing
  that it may do, to send a publisher away. So who changes links under moving publishers hands it
  another that may refuse. The other design was a chain: each part a strategy that wraps the next,
  and takes what is its own from what passes. But what a tracer must hear (a publisher has turned,
  has left, is nowhere) is no input; it is what the migrations and the tree made of one, and each
  layer would have to guess it from the messages. Before, it was an abstract class with a method for
  each, which nothing else could use.
- **The migration is not in `broker/`**, as first planned: it changes a tree's tables, so it belongs
  above them. The client's half (`clients/publisher.py`) knows no overlay and stays below.
- **A failed migration is a move back, decided by the publisher.** The other design was a rollback
  among the brokers: an abort message from a break to both ends, each broker restoring what it had.
  It needs the old state at every broker, a decision for the case that source and target are cut off
  from each other, and another for the abort that is itself cut off; the publisher reaches both ends
  anyway, and a move back is nothing new. Its price is that rows are held for a while after a
  failure.
"""
