"""The log of a broker: every publication that enters there, in order, to be read again.

Each broker keeps the publications of its own clients, so that the logs of all brokers together have
each publication of the network once. The broker appends a record behind admission and rules, and
before the acknowledgement. `records` has the content of a record.

| file of a log's folder | content |
| --- | --- |
| `log-00000000000000000000`, … | segments, named by first offsets: a heading, then blocks |
| `index-…` | of a segment that is complete: places of its blocks by offset and time |
| `state` | the log's identity, and bounds of its offsets (see `offsets`) |
| `readers` | named readers with their cursors (see `readers`) |
| `lock` | held by the broker that writes |

Invariants:

- Offsets grow by one from record to record and name one record for ever, also after a kill. After a
  power cut the next offset is beyond all that can have been lost.
- A gap is a record: where publications were not logged (a full disk, a power cut), a `LogGap` says
  how many, when and why. Readers never skip without a word.
- Times of records do not fall within a log.
- A segment is deleted whole, the oldest first, once the bound of bytes or of age passes it and no
  named reader holds it.
- A torn last block, as a crash leaves it, is cut off. Any other damage is an error with file and
  byte, and nothing is changed.

Two decisions. A block is a MessagePack list of records as they were gathered for one write, not a
columnar batch: a busy broker writes blocks of hundreds of records and a quiet one blocks of one,
for which an Arrow batch costs ten times its payload; readers turn blocks into columns. And the
broker serves its log itself, in slices of its loop, since another process would need a protocol of
its own to follow the end; `shoal log serve` is that process for a broker that has ended.
"""
