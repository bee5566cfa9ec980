"""The journal of a broker: the state that outlasts a kill, as records.

What a broker remembers
-----------------------

`mqtt/memory/journal.py` records changes (`journal_records.py`): a record states the new value of a
thing, or its end. The journal has sessions that outlive their connection, their subscriptions,
queued messages (once, for all their receivers), packet identifiers in both directions, wills,
retained messages, the session directory, and the members of shared groups.
`runtime/storage/journal_writer.py` writes the records of one flush as one batch, between
`Phase.DELIVER` and the phases that send to clients and neighbours. So the broker acknowledges only
recorded changes, with one write per flush.

- A record states the whole value again. The journal is therefore compacted by writing all values to
  a new file, a few with each write, while changes continue; then the new file is marked as complete
  and the older files are deleted, without a pause and without a copy.
- A batch is atomic: the packet identifier that prevents a second delivery (`ReceivedPut`) stands
  with the effects of the first.
- A sliced fan-out (`sessions/sliced_fan_out.py`) takes several batches. The first one has
  `SpreadPut`, the last one `SpreadEnd`; a broker that was killed between them delivers the message
  to the sessions without a later `ItemPut`. The journal is not compacted meanwhile.
- For QoS 2 across brokers the journal has the last publication received of each publisher
  (`HeardPut`), for the front end's deduplication, and the client publications that were not settled
  (`UnsettledPut`), which a restarted broker sends again under the old number.
- A restart is a loss of all connections: expiry continues, wills are published after a pause in
  which links and clients come back. Requests for sessions of other brokers are repeated while the
  network starts.
- When a write fails, the broker closes the connections that wait for it, refuses QoS 1 and 2, and
  writes its whole state again when the disk accepts it; memory is authoritative. Old files may be
  what fills the disk, so 32 MB are kept in reserve for that. Neighbours get no acknowledgement, and
  keep copies (`runtime/driving/recording.py`, `broker/links/outbox.py`).

Decisions
---------

- **The journal has its own file format.** SQLite (write-ahead log, no syncs) was measured beside it
  with the same changes (`make bench-journal`): as rows a QoS 1 message costs 14 instead of 3 µs
  more than without a journal; as a log of batches about the same where batches are large, twice as
  much where a batch is one message. LMDB, as rows, took two to five times the file's time. SQLite
  also syncs, and copies its log, on the writing thread. The file is lengths, checksums and
  appending, 280 lines, and its syncs are not on the event loop's thread.
"""
