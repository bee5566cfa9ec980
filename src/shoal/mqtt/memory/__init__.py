"""What must outlast a kill, as records.

What a broker remembers
-----------------------

`mqtt/memory/journal.py` says what changed, as records (`journal_records.py`): something is so from
now on, or gone. Sessions that outlive their connection, their subscriptions, messages on their way
(a message once, however many get it), packet identifiers both ways, wills, retained messages, where
other sessions are, and who is in shared groups. `runtime/storage/journal_writer.py` writes all that
one flush has as one batch, between `Phase.DELIVER` and the phases in which anyone is told; so
nothing is acknowledged that is not written, and it costs one write.

- A record says its whole thing again, so a journal is shortened by saying all that there is anew in
  a new file, a little with each write, while changes go on; then the file is marked and those
  before it go. No pause, no copy.
- A batch counts as a whole: what a client is told is not taken twice (`ReceivedPut`) stands with
  what came of it.
- What is handed to many in turns (`sessions/spreading.py`) takes several batches. The first says
  that it is taken (`SpreadPut`), the last that all have it (`SpreadEnd`); a broker that was killed
  between them hands it to the sessions that have no `ItemPut` since. Nothing is said anew
  meanwhile.
- For QoS 2 across brokers it has the last publication heard of each publisher (`HeardPut`), for the
  door's repeats, and what a client's broker had not settled (`UnsettledPut`), which it sends on
  under the old number.
- A restart is a loss of all connections: expiry runs on, wills are published after a pause in which
  links and clients come back. Who asks for a session elsewhere asks again while the network starts.
- What cannot be written is not told: those connections are closed, QoS 1 and 2 refused, and all is
  said anew when the disk takes it again; memory is the truth. Old files may be what fills the disk,
  so 32 MB are kept in reserve for that. Neighbours are not told that it is settled, and keep copies
  (`runtime/driving/recording.py`, `broker/links/outbox.py`).

Decisions
---------

- **The journal is a file of our own.** SQLite (write-ahead log, no syncs) was measured beside it
  with the same changes (`make bench-journal`): as rows a QoS 1 message costs 14 instead of 3 µs
  more than without a journal; as a log of batches about the same where batches are large, twice as
  much where a batch is one message. LMDB, as rows, took two to five times the file's. SQLite also
  syncs, and copies its log, on the thread that writes. The file is lengths, checksums and
  appending, 280 lines, and its syncs are not on the loop's thread.
"""
