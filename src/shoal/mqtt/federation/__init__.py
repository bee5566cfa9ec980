"""What brokers do together for MQTT clients.

Decisions
---------

- **Only clients that follow are moved.** One that does not stays: who is drained lets it go with a
  word (0x9C, or 3.1.1's end of the connection), its will waits 15 s for it to come elsewhere, and
  asked to move it the broker says why not. The other design was to serve it from afar, as doors do
  for publishers: its session at another broker, its connection here. But then each of its
  deliveries takes a hop more and both brokers must live, so nobody gains who wants a client near
  its data, or a broker empty.
- **Of a shared subscription's group the publisher's broker chooses.** Each broker knows where the
  members of all groups are; the one that takes a message in hands it to one broker, is told that a
  member has it, and acknowledges then; if not, it chooses another (`mqtt/federation/sharing.py`).
  Before, all brokers with members got the message, and a hash of its key and the members counted at
  its time named one, without a word. That is a message less to say, but nobody sees it when the one
  whose turn it is has died: the others would have to keep its turns, and to be told of each that it
  is taken; who comes back needs the counts of a time when it was dead; and what is settled by its
  death is lost. An answer per message is cheaper.
- **SUBACK comes when every broker has heard of the subscription**: a mark behind it has come
  everywhere and is settled (in BlueDove: it is stored; in OctopiA: its bits are set, too). So what
  is published anywhere after it comes. Nobody waits longer than 2 s for brokers that are away
  (`mqtt/federation/granting.py`).
  In a tree of 100 brokers a new filter is 99 messages and its mark as many; filters that come while
  a mark is under way share the next (100 at once: 101 messages each), and what the broker has asked
  for already costs none.  The 99 are what it touches: any client may publish anything anywhere, so
  doors advertise everything, and each broker's table needs the filter.  The mark goes behind it in
  the same write on each link (189 bytes for both), so a SUBACK costs one write on each, and the
  word back.
- **What another subscription of this broker covers is not asked for** once every broker has heard
  of that one (`mqtt/door/asking.py`): no message, and the SUBACK at once. It is right as long as
  the coverer is asked for, so one that no client wants any more stays until what was under it is
  known everywhere, some of it at a time; of a broker that begins or a link that changes a mark says
  first that it knows. The other design was to ask for all, and only to leave out the mark: half the
  messages, and tables as large as before, and the coverer must wait for a mark as well. It would
  keep each subscription known to the system, which counts only where users are placed by what they
  want: there nothing is covered. The price comes when a coverer goes: 99 messages for each under
  it.
- **Retained messages are everywhere.** They are few and asked for at any time, so each broker keeps
  them all; of two for one topic the later stays, removals too, so that brokers which were apart
  agree whoever tells whom. When a link is back that was given up, only its two ends ask, and say to
  all what was news to them (`mqtt/federation/joining.py`).
"""
