"""How brokers agree on who is there: one of them, the manager, makes the next view.

The manager is the first member by name that is there; it is linked to all.  Members tell it who is
lost, comes or goes, again to its successor.  What it makes goes from neighbour to neighbour, and
of two views the later one holds, whoever made it; who is alive and not in it asks to be taken in.
No step waits for anybody: views need no agreement, as publications that are under way in one are
sent again in the next.

The founders of a network begin in view 0, and brokers that join in none.  A member remembers its
last view on disk and starts in that one: so a network that starts again is as it was, with brokers
that have joined and without founders that have left.  No two views have one age: the maker of a
view is in it, remembers it, and makes a later one next.

| who | hears | does |
| --- | --- | --- |
| a member | a link to a member is lost | sends nothing more over it in this view; LinkLost |
| | LinkLost | passes it on to whom it takes for the manager |
| | a later view, which has it | is in it; passes it on |
| | a later view without it | passes it on; JoinWanted, unless it leaves |
| | StayWanted, from who wanted to leave | forgets that |
| | JoinWanted | passes it on to the manager, until there is a view with who wants it |
| the manager | all that, for `gather_us` | makes a view of those that it is linked to |

Source: DYNATOPS, section 5.1.2, has versions and a manager for changes of positions; here whoever
joins, leaves or dies makes such a change, too.
"""
