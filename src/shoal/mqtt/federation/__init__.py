"""The federation: cooperation of the MQTT sides of all brokers in a network.

Decisions
---------

- **Only clients that follow redirects are moved.** Another client stays: a broker that is drained
  disconnects it (0x9C, or 3.1.1's end of the connection) and delays its will for 15 s, in which it
  may connect elsewhere; an order to move it is refused with the reason. The alternative is to serve
  the client from afar, as front ends do for publishers, with its session at another broker than its
  connection. But then each delivery takes one hop more and depends on two brokers, which helps
  neither to bring a client close to its data nor to empty a broker.
- **The publisher's broker chooses the member of a shared subscription's group.** Each broker knows
  the brokers with members of each group. The broker that takes a message in hands it to one of
  them, waits for the answer that a member has it, and acknowledges then; without one it chooses
  another (`mqtt/federation/sharing.py`). The alternative without an answer is that all brokers with
  members get the message, and a hash of its key and the member counts selects one. It saves a
  message, but no broker notices that the selected one has died: the others would have to keep its
  messages, and to be told of each delivery; a restarted broker would need the counts of the time of
  its absence; and a settled message would be lost with it. An answer per message is cheaper.
- **SUBACK comes when every broker knows the subscription**: a mark behind it has reached all
  brokers and is settled (in BlueDove: it is stored; in OctopiA: its bits are set, too). So the
  subscriber gets every later publication, from any broker. The SUBACK waits at most 2 s for
  disconnected brokers (`mqtt/federation/granting.py`).
  In a tree of 100 brokers a new filter is 99 messages and its mark as many; filters that come while
  a mark is under way share the next (100 at once: 101 messages each), and a filter that the broker
  has requested already costs none. The 99 are the brokers concerned: any client may publish any
  topic at any broker, so front ends advertise everything, and each broker's table needs the filter.
  The mark follows it in the same write on each link (189 bytes for both), so a SUBACK costs one
  write on each link, and the acknowledgement.
- **A covered subscription is not requested** once every broker knows the covering one
  (`mqtt/front_end/covering.py`): it costs no message, and the SUBACK comes at once. This is correct
  as long as the covering one is requested, so one without clients stays until every broker knows
  the subscriptions under it, some at a time; after a broker's start or a link change a mark first
  confirms that all know it. The alternative is to request all, and to omit only the mark: half the
  messages, tables as large as without covering, and the covering one must wait for a mark as well.
  It keeps each subscription visible to the system, which matters only where users are placed by
  their subscriptions: there nothing is covered. The price comes when a covering subscription ends:
  99 messages for each one under it.
- **Every broker has all retained messages.** They are few and may be requested at any time; of two
  for one topic the later one stays, removals too, so that brokers of separated parts agree in any
  order of messages. When a link that was given up is back, only its two ends ask, and announce to
  all the messages that were new to them (`mqtt/federation/joining.py`).
"""
