"""Session transfer between brokers: a client's session follows it to the broker it connects to.

| broker | hears or sees | does |
| --- | --- | --- |
| target | an unknown client connects, just started | has it wait (see `starting`) |
| target | client connects, session known elsewhere | Entered, requesting it → waiting |
| target | ASK_AGAIN_US over, waiting, source was heard of since | Entered, again, to the source |
| target | ASK_AGAIN_US over, it was not | Entered, to all, of a few clients that wait for it |
| target | SessionState, all of it | admits the client → arriving |
| target | SessionState, the client has hung up | TransferDeclined |
| target | WAIT_US over, no answer | refuses the client; a new session without a disk, or if the source is silent or was declared dead |
| target | ClientNotOwner | refuses the client: the session is another user's |
| source | Entered | closes its connection (0x8E); if requested: exports the session (see `exporting`) |
| source, had redirected the client | Entered, requesting | as above, after the connection (see `redirecting`) |
| source | Entered of another user | ClientNotOwner |
| source | Entered, of another session of that client | ends the session |
| asked, has no session | Entered | passes it on to the session's next broker, or answers that there is none |
| registrar | Register | Entered, to the client's former broker (see `directory`) |
| client came back meanwhile | Entered, older | Entered, to all |
| waiting itself | Entered | closes its connection, and waits no more |
| arriving | Item | delivers it |
| arriving | EarlierSettled, all; ARRIVING_US over without a control | accepts the client's publications |
| arriving | Offer | SessionAdopted, once every broker knows the subscriptions |
| arriving | ARRIVING_US over without a control, repeatedly | delivers held messages; TransferInquiry, to the source |
| asked, does not export that session | TransferInquiry | SessionDeparted (see `inquiries`) |
| arriving | SessionDeparted; the source has left the network; OPEN_US over | delivers held messages → owner |
| arriving, had exported it | SessionDeparted on the transfer before that | SessionDeparted to the target of the export |
| owner, or has another session | Offer, SessionDeparted | TransferComplete |
| has no session | SessionState, Offer, SessionDeparted | TransferDeclined |

A transfer is identified by the client and the fencing token: the time of the client's CONNECT at the
target, or one more than the last known token, where a clock is ahead. If two brokers believe to own
a session, the broker of the later CONNECT keeps it; the other learns so and exports its copy.

Decisions
---------

- **The source collects for a session until the end, and gives it up last.** The broker that a
  client has left sends a copy of the session, keeps its own, and goes on collecting and forwarding,
  until the target answers that the copy is on its disk and that every broker knows its
  subscriptions. Meanwhile the target holds the messages that reach it directly, and then the two
  streams are joined by the publications' keys (`mqtt/federation/session_transfer/exporting.py`). The
  source asks until it learns the outcome, so one broker has all of the session whichever broker
  dies and whichever message is lost. A session has an identity, the time and place of its begin,
  which tells an old copy from another session. A client that comes back to its former broker needs
  no question; the brokers to which that broker owes the end of an earlier transfer are on its disk.
- **Both sides of a transfer ask.** The source asks for the outcome, and the target of a silent source
  asks whether there is an export at all. Either may have no record of the transfer: its disk was
  lost, or it was started on an older copy of its folder. Then the other side would wait for ever,
  and a leave with it. A question about an unknown transfer has an answer that ends it: the source
  is told TransferDeclined or TransferComplete, the target SessionDeparted. The source's name is on
  the target's disk, as the target may be the one that was restarted. Asking all brokers instead
  needs an answer from each of them.
- **The later CONNECT wins, not the later admission.** A client may hang up while it waits, for the
  lists, its session or the check of its password, and go back to its session. A broker that does
  not notice continues for the dead connection. If its steps were later than the client's return, it
  would end the session with the client in it, or take it away. So no step takes a token of its own
  time: neither an admission, nor the end of an import, nor the answer to a stale announcement; and
  a session that moves without its client takes the token after its last. Requests and takeovers
  older than the client's return do not touch its session. The clocks of the two brokers may differ
  by more than the client takes to return: therefore a client that waits is read
  (`mqtt/connection/status.py`), so that a hang-up ends its wait
  (`tests/exploration/test_sessions.py` removes either rule). A broker that hears of a later token
  while it checks a password cannot tell a later CONNECT from a clock that is ahead, and takes the
  next token: there only the hang-up helps.
- **A client is refused rather than given a new session.** While the owner of a session is down,
  other brokers refuse its client (0x88). "No session present" would force the network to discard
  the session, and messages acknowledged into it, when the owner is back, or to give them to a
  client that was told they are gone. Clients retry by themselves, and a client that prefers a new
  session says clean start. The price: an operator that lost a broker for good must start it again,
  if with an empty disk, or forget it. Without `[storage]` a broker that is down has no sessions, and clients get
  new ones after 2 s.
- **A broker that has just started asks before it begins a session.** It does not know the sessions
  that began or moved elsewhere while it was down, so it admits unknown clients when all other
  brokers have sent their session lists, or 9 s after its start
  (`mqtt/federation/session_transfer/starting.py`). Such a client waits for its CONNACK rather than
  being refused at once: mostly the answers are there within milliseconds of the links. Asking only
  neighbours, which know all sessions, suffices where no other broker has just started; after a
  power cut all have. A broker that is down cannot be told from one that is cut off, so a broker
  that is down costs 9 s at each start of another, though others are asked about its sessions; a
  longer wait would exclude new clients for the sake of sessions of a broker that no other can
  reach. A broker that was cut off and runs on does not ask: otherwise, while any broker is down,
  its neighbours would have all new clients wait.
- **All brokers learn of kept sessions, two registrars of others.** Messages acknowledged into a
  kept session must not be lost, so no broker may begin it anew, whichever brokers are down or have
  just started: each broker has the session directory. Asking a registrar at each CONNECT instead
  needs agreement about the members, an answer before any unknown client is admitted, and refusals
  when two brokers are down. The price, a message to each broker, is paid once for a session, when
  it begins or moves, and is shared by sessions within 100 ms: where 100 brokers of a tree admit
  10,000 such clients in one second, each for the first time, that is 172,588 messages over links,
  17.3 for each, and 192,334 where the sessions end with their connections and only registrars are
  told; to announce each by itself would be 990,000 (`make bench-whereabouts`). A single one is 99
  messages. A session that ends with its connection can only be connected twice: two brokers found
  by a hash of the client identifier prevent that (`directory/`).
- **Publications wait, not CONNACK, until an old connection's will is settled** (`takeovers.py`).
  Holding CONNACK would delay every client by the way to a registrar, also one that only subscribes.
  Letting the later message win by its time at each subscriber's broker needs the last message of
  each client there.
"""  # noqa: E501
