"""How the neighbours of a broker that leaves, or is dead, agree to link to one of them instead.

One idea: **a leave is a contraction.** The leaving broker is merged into one of its neighbours, the
*successor*: each of its other neighbours hangs its own part of the tree on the successor. A
contraction keeps a tree a tree, whichever neighbour follows first and whichever follows late. A
death that an operator declares (`shoal forget`) is the same, without the dead broker.

The successor is the *decider*: it asks all the others, and its own installation of the change is
the decision (two-phase commit with a durable decision). A broker that has voted is *in doubt* until
it knows the decision. A broker that has installed a change keeps the decision on disk until others
have confirmed that they have installed it, too: the decider and the leaving broker wait for all,
any other broker for these two, as it is not linked to its like. Before that it takes part in no
other change, but for one that does without a dead broker that it waits for.

| step | message | written to disk first |
| --- | --- | --- |
| the leaving broker asks a neighbour to decide | `LeaveWanted` | |
| the decider opens links to the others, which do not last, and asks them | `Prepare` | |
| each of the others stops, and votes | `Ready` | its vote |
| the decider stops, and asks the leaving broker | `Prepare` | |
| the leaving broker stops, votes, and says which rows lie behind whom | `Ready` | its vote |
| the decider installs: this is the decision | `Decide` | decision, links |
| each of the others installs, and tells these two | `Decide` | decision, links |
| the leaving broker installs, tells all, and passes on what was under way | `Decide` | decision |
| all have confirmed: nothing more comes from the leaving broker | `Flushed` | |
| its links end, and it has left | | |

Where the broker is dead, the others say themselves which rows lie behind them.

`coordinator.py` takes what a broker hears, and has the table of what it does in which stage;
`deciding.py` is the decider, `taking_part.py` who votes, `part.py` what both know, and `host.py`
what the system of the broker must give; `strategy.py` is the base of such a system.

Why nothing is lost
-------------------

- *Tables.* The leaving broker takes in nothing between its vote and the decision, so its rows are
  exactly those that the decider has from it, and say which neighbour each of them belongs to. Each
  of the others only renames the leaving broker. Then the two ends of each new link say their tables
  as over any link that has come up: rows stay until the other end has said all. So what was under
  way, and is dropped, is said again, and no row goes that still counts. So a decision may also come
  late, to a broker that has gone on meanwhile: what changed after its vote is said then.
- *Publications.* What a participant has sent to the leaving broker, and what is not settled there,
  it sends again over the new link (`Recall`), before anything newer. What the leaving broker has
  taken in, it passes on over its old links. A participant takes nothing else in before the leaving
  broker has said `Flushed`, or its link is lost: so no publication is overtaken.

What happens when a broker dies meanwhile
-----------------------------------------

| broker | dies | then |
| --- | --- | --- |
| decider | before its decision is on disk | when it is back, it answers `Query` with `Abort` |
| | after | it finds its decision on disk, and says it first of all |
| one of the others | before its vote | the decider aborts |
| | after | it finds its vote on disk, and asks (`Query`) |
| leaving broker | before its vote | the decider aborts |
| | after | it finds its vote on disk, and asks; or the decision, and goes on |

A broker in doubt asks the decider and the leaving broker, whichever it is connected to. If the
decider is down and has told one of the others, that one tells the leaving broker, which tells the
rest; if it has told nobody, the doubt lasts until it is back, or is declared dead. Only the leaving
broker's vote makes a decision possible, and it is asked last: so a leaving broker that has not
voted knows that nothing was decided, and says so (`Abort`).

A broker in doubt that loses the decider goes on over its old links, so that none of its clients
waits for a broker that is down. It keeps its vote, and asks again whenever it is connected to the
decider or the leaving broker. If the decision comes, it installs. The leave waits until then, and
says for which broker (`Coordinator.problem`). If the decider is dead for good, an operator declares
that: those in doubt forget their votes and vote on the change that does without it; those that have
installed wait for it no more.

A broker that links to the leaving broker when that one is out of the tree is sent to its successor
(`Elsewhere`).

Where links may make cycles
---------------------------

Nothing turns, so less is to be done (`overlays/graph.py`): others that are linked to the decider
already keep that link (`Change.linked`); a system that keeps publishers' order itself does not stop
(`Host.stops`); and the leaving broker goes on until nothing needs it any more (`Host.is_drained`).

Decisions
---------

- **The successor decides, not the leaving broker**, as a leaving broker takes its disk with it.
- **Tables are said again over the new links.** The other design hands over what lies behind each
  neighbour, flushes every link until nothing is under way, and turns all tables without a word: no
  table is said twice, but each participant waits until tables that answer each other are said, and
  every fault in the middle needs a way back. A leave is rare; its price here is what a link costs
  that comes up anew.
- **A participant in doubt goes on when the decider is lost.** Else a broker that is killed in the
  wrong millisecond would stop publishers at all neighbours of the leaving broker.

Literature: two-phase commit with presumed abort (Mohan, Lindsay and Obermarck, 1986); changes of
configurations in Raft (Ongaro, 2014, chapter 4) and in viewstamped replication.
"""
