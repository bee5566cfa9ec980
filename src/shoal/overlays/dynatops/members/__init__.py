"""Membership: one of the brokers, the manager, makes the next view.

The manager is the first connected member by name; it is linked to all. Members report losses, joins
and leaves to it, and again to its successor. Its view goes from neighbour to neighbour, and of two
views the later one is valid, whichever broker made it; a live broker that is not in it asks to
join. No step waits for another broker: views need no agreement, as publications in transit in one
are retransmitted in the next.

The founders of a network begin in view 0, and joiners in none. A member writes its view to disk and
starts in that one: so a restarted network is as it was, with brokers that have joined and without
founders that have left. No two views have the same age: the maker of a view is in it, remembers it,
and makes a later one next.

| broker | event | action |
| --- | --- | --- |
| a member | a link to a member is lost | sends nothing more over it in this view; LinkLost |
| | LinkLost | forwards it to the manager, as far as it knows |
| | a later view that contains it | enters it; forwards it |
| | a later view without it | forwards it; JoinWanted, unless it leaves |
| | StayWanted, from a member that wanted to leave | forgets the leave |
| | JoinWanted | forwards it to the manager, until there is a view with the joiner |
| the manager | all that, for `gather_us` | makes a view of the members that it is linked to |

Source: DYNATOPS, section 5.1.2, has versions and a manager for changes of positions; here joins,
leaves and deaths make such a change, too.
"""
