"""Link changes: a leaving or dead broker is replaced by one of its neighbours, by two-phase commit.

One idea: **a leave is a contraction.** The leaving broker is merged into one of its neighbours, the
*successor*: each of its other neighbours links to the successor instead. A contraction keeps a tree
a tree, in whatever order the neighbours install it. A death that an operator declares (`shoal
forget`) is the same contraction without the dead broker.

The successor is the *decider*, the coordinator of the two-phase commit. It asks all participants,
and its own durable installation of the change is the decision. A broker that has voted is *in
doubt* until it knows the decision. A broker that has installed a change keeps the decision on disk
until others have confirmed that they have installed it, too: the decider and the leaving broker
wait for all participants; each of the others waits for these two, as it has no link to the rest.
Until then a broker takes part in no other change, except one that removes a dead broker from which
a confirmation is missing.

| step | message | written to disk first |
| --- | --- | --- |
| the leaving broker asks a neighbour to decide | `LeaveWanted` | |
| the decider opens temporary links to the others, and asks them | `Prepare` | |
| each of the others quiesces, and votes | `Ready` | its vote |
| the decider quiesces, and asks the leaving broker | `Prepare` | |
| the leaving broker quiesces, votes, and sends each neighbour's rows | `Ready` | its vote |
| the decider installs: this is the decision | `Decide` | decision, links |
| each of the others installs, and informs decider and leaving broker | `Decide` | decision, links |
| the leaving broker installs, informs all, and forwards what it holds | `Decide` | decision |
| all have confirmed: the leaving broker sends nothing more | `Flushed` | |
| its links end, and it has left | | |

If the broker is dead, the others send the rows that lie behind them, and no leaving broker votes. A
broker that quiesces accepts no input but from the decider and the leaving broker: clients and other
neighbours wait. After an abort, or after 5 s without an answer, the leaving broker asks its next
neighbour.

| module | contents |
| --- | --- |
| `coordinator.py` | the inputs of a broker, and the state machine |
| `deciding.py`, `taking_part.py` | the decider; a participant |
| `part.py` | state that both roles share |
| `host.py` | the interface that a routing system provides |
| `strategy.py` | base class of such a system |

Why nothing is lost
-------------------

- *Tables.* The leaving broker accepts nothing between its vote and the decision. So its rows are
  exactly those that the decider has from it, and it names the neighbour of each. Each of the others
  only renames the leaving broker in its tables. Then the two ends of each new link synchronise
  their tables as over any link that has come up: a row stays until the other end has sent all its
  rows. So a dropped update is sent again, and no valid row is removed. A late decision is harmless
  for the same reason: changes after the vote are sent in the synchronisation.
- *Publications.* A participant retransmits over the new link, before anything newer, the
  publications that it sent to the leaving broker and that are not settled there. The leaving broker
  forwards what it has accepted over its old links. A participant accepts nothing else until the
  leaving broker has sent `Flushed`, or the link to it is lost: so no publication is overtaken.

Crashes during a change
-----------------------

| broker | crashes | then |
| --- | --- | --- |
| decider | before its decision is on disk | after its restart it answers `Query` with `Abort` |
| | after | it finds its decision on disk, and sends it before anything else |
| one of the others | before its vote | the decider aborts |
| | after | it finds its vote on disk, and sends `Query` |
| leaving broker | before its vote | the decider aborts |
| | after | it finds its vote on disk, and sends `Query`; or the decision, and resumes |

A broker in doubt sends `Query` to the decider and the leaving broker, if it is connected to them,
every 2 s. A decider at work, and a leaving broker that is in doubt too, do not answer. On `Abort` a
participant deletes its vote, resumes, and ends its temporary link; the leaving broker passes it on,
and votes on that change no more.
If the decider is down but one of the others has the decision, that participant informs the leaving
broker, which informs the rest. If no other broker has the decision, the doubt lasts until the
decider is back, or is declared dead. A decision needs the leaving broker's vote, and the decider
asks for it last: so a leaving broker that has not voted knows that there is no decision, and
answers `Abort`.

A broker in doubt that loses the decider resumes over its old links, so that its clients do not wait
for a broker that is down. It keeps its vote, and sends `Query` when it is connected to the decider
or the leaving broker again. If the decision comes, it installs. The leave waits until then, and
`Coordinator.problem` names the missing broker. If the decider is dead for good, an operator
declares it dead: brokers in doubt drop their votes and vote on the change that removes the decider;
brokers that have installed stop waiting for its confirmation.

A temporary link that no change of its end uses for 5 s was opened by a broker that has crashed
since: each end ends it within 10 s, and refuses to vote over a link that ends.

If a broker links to the leaving broker after that one is out of the tree, it is redirected to the
successor (`GoElsewhere`).

Overlays with cycles
--------------------

Tables do not turn there (`overlays/graph.py`). Others that are linked to the decider keep that link
(`LinkChange.linked`). A system that orders publications itself does not quiesce (`Host.stops`). The
leaving broker routes until it is drained (`Host.is_drained`).

Decisions
---------

- **The successor decides, not the leaving broker**, as a leaving broker takes its disk with it.
- **The ends of new links synchronise their tables.** The alternative hands over the rows behind
  each neighbour, flushes every link, and turns all tables without messages: no table is sent twice,
  but each participant waits until the flush is complete, and every fault in the middle needs a way
  back. A leave is rare, and its price here is that of a link that comes up.
- **A participant in doubt resumes when the decider is lost.** Otherwise one crash in the wrong
  millisecond would stop publishers at all neighbours of the leaving broker.
- **Four kinds of change keep a protocol of their own**, as the coordinator would cost more there:

| change | protocol | reason |
| --- | --- | --- |
| link exchange | `self_organising/link_reconfiguration` | frequent: tables turn silently |
| leave from OctopiA's clusters | `octopia/links` | probes keep order between clusters |
| members of a ring, `tco` | `dynatops/members` | all members take part: n² decisions |
| matchers of BlueDove | `bluedove/serving` | segments move; no table belongs to a link |

- **No service holds the members of all systems.** Each table of brokers has contents of its own,
  and a broker's incarnation in it is the time of its start, or of its entry:

| table | contents beside name and time | spread by |
| --- | --- | --- |
| `runtime/links/directory.py` | addresses; left, gone, dead | links; questions if one is down |
| `self_organising/links/memory.py` | the link belongs to the tree | greetings |
| `octopia/places/roster.py` | place, stage of a join or leave | links, a registrar |
| `dynatops/members` | view: order of the ring | a manager |
| `bluedove/cluster/members.py` | segments, heartbeats | gossip |

  A common table would replace one column of each, and keep their protocols. Only the first says
  whether a broker has left or is dead; a system learns it from its driver (`Departed`, `Dead`).

Literature: two-phase commit with presumed abort (Mohan, Lindsay and Obermarck, 1986); membership
changes in Raft (Ongaro, 2014, chapter 4) and in viewstamped replication.
"""
