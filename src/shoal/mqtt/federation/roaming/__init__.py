"""Sessions that go from one broker to another.

| broker | hears or sees | does |
| --- | --- | --- |
| new | client connects that nobody knows, just started | has it wait (see `starting`) |
| new | client connects, session known elsewhere | Entered, asking for it → waiting |
| new | ASK_AGAIN_US over, waiting, old was heard of since | Entered, again, to old |
| new | ASK_AGAIN_US over, it was not | Entered, to all, of a few of those that wait for old |
| new | SessionState, all of it | lets the client in → arriving |
| new | SessionState, the client has hung up | Declined |
| new | WAIT_US over, and no word | refuses the client; anew without a disk, or if old is silent |
| new | Refused | refuses the client: the session is another user's |
| old | Entered | closes its connection (0x8E); if asked: gives the session (see `giving`) |
| old, had sent it away | Entered, asking | as above, once the client is gone (see `redirecting`) |
| old | Entered of another user | Refused |
| old | Entered, of another session of that client | ends the session |
| asked, has nothing | Entered | asks the broker where the session went, or says there is none |
| registrar | Register | Entered, to where the client was (see `whereabouts`) |
| came back meanwhile | Entered, older | Entered, to all |
| waiting itself | Entered | closes its connection, and waits no more |
| arriving | Item | delivers it |
| arriving | Settling, all; ARRIVING_US over without a word | takes what its client publishes |
| arriving | Offer | Adopted, once every broker knows the subscriptions |
| arriving | ARRIVING_US over without a word | delivers what it held back |
| arriving | Departed, or OPEN_US over | delivers what it held back → has it |
| arriving, had given it | Departed on the journey before that | Departed to whom it was given |
| has it, or another session | Offer, Departed | Taken |
| has nothing | SessionState, Offer, Departed | Declined |

A journey is known by the client and the time at which it entered the broker it goes to.  A session
that both think to have stays where its client entered last; the other hears so and gives what it
has to offer.

Decisions
---------

- **A session moves by collecting on, and is given away last.** The broker a client has left sends a
  copy of its session, keeps its own, and goes on collecting and sending on, until the new one says
  that the copy is on its disk and that every broker knows its subscriptions; meanwhile the new one
  keeps what arrives by itself, and then the two are joined by the publications' keys
  (`mqtt/federation/roaming/giving.py`). The giver asks until it hears what became of the copy, so
  whoever dies, and whatever is lost between them, one broker has all. A session has a name of its
  own, when and where it began, so that an old copy is told from another session. None is asked when
  a client comes back to the broker where it was; whom that broker owes its last word, as the
  session was there meanwhile, is on its disk.
- **Refused rather than begun anew.** While the broker that has a session is down its client is
  refused elsewhere (0x88). To let it in with "no session present" would be true only by making it
  so: the session, and what was acknowledged into it, would have to be thrown away when that broker
  is back, or given to a client that was told it is gone. Clients try again by themselves, and one
  that would rather begin anew says clean start. The price is that who lost a broker for good must
  start it again, if with an empty disk. Without `[storage]` a broker that is down has no sessions,
  and clients begin anew after 2 s.
- **Who has just started asks before it begins a session.**  What began or moved elsewhere while it
  was down it does not know, so whom it does not know it lets in when all others have said which
  sessions they have, or 9 s after its start (`mqtt/federation/roaming/starting.py`).  Such a
  client waits for its CONNACK, rather than being refused at once: mostly the answers are there
  within milliseconds of the links.  To ask neighbours only, who know where all are, would do where
  nobody else has just started; after a cut of power all have.  A broker that is down is not told
  from one that is cut off, so it costs 9 s at each start of another, though others are asked what
  they know of it; longer would keep those out who are new, for the sake of what began at a broker
  that nobody could reach.  One that was cut off
  and runs on does not ask: while any broker is down its neighbours would have all newcomers wait.
- **Of kept sessions all brokers are told, of others two registrars.**  What is acknowledged into a
  kept session must not be lost, so no broker may begin it anew, whoever is down or has just come:
  each knows by itself.  To ask a registrar at each CONNECT instead needs all to agree on who is
  there, an answer before any client that nobody knows is let in, and refusals when two brokers are
  down.  The price, a message to each broker, is paid once for a session, as it begins or moves, and
  shared by those that come within 100 ms: where 100 brokers of a tree let in 10,000 such clients in
  one second, each for the first time, that is 172,588 messages over links, 17.3 for each, and
  192,334 where the sessions end with their connections and only registrars are told; to tell all of
  each by itself would be 990,000 (`make bench-whereabouts`).  One that comes alone is 99 messages.
  A session that ends with its connection has nothing to lose but a connection that is open twice:
  for it two brokers found by its client's name do (`whereabouts/`).
- **Publications wait, not CONNACK, until an old connection's will is placed** (`takeovers.py`).
  To hold CONNACK back would delay every client by the way to a registrar, also one that only
  subscribes.  To let a later word win by its time at each subscriber's broker needs the last word
  of each client there.
"""
