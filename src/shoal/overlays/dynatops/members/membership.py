"""The membership protocol of one member (see the package's docstring)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from shoal.broker.effects import Effect, Left, LinkReady, LinkState, Remember, Send, SetTimer
from shoal.broker.strategy import BrokerContext, ProtocolError, unexpected
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.coordinates import MemberCoordinates
from shoal.overlays.dynatops.members.links import OwnLinks
from shoal.overlays.dynatops.messages import (
    EndRefused,
    EndWanted,
    Introduction,
    JoinWanted,
    LeaveRequest,
    LinkLost,
    MembersMessage,
    StayWanted,
    ViewSaid,
)
from shoal.overlays.dynatops.parameters import ViewParameters
from shoal.overlays.dynatops.view import Age, View, ViewPlaces, known_view

# The manager and its successor: all members are linked to both.
MANAGERS = 2
GATHER = ("members", "gather")
PATIENCE = ("members", "patience")
TIDY = ("members", "tidy")


class ViewMembership:
    """One broker's knowledge of the members.

    `place` gives the positions in a view; `began` is called when one has begun here, `is_free`
    tests whether nothing is in transit here.
    """

    def __init__(
        self,
        context: BrokerContext,
        parameters: ViewParameters,
        place: Callable[[View], ViewPlaces],
        began: Callable[[int, list[Effect]], None],
        is_free: Callable[[], bool],
    ) -> None:
        self.broker = context.broker
        self.life = 0
        self.links = OwnLinks(context.broker, context.neighbours)
        self.met = self.links.met
        self._parameters = parameters
        self._place = place
        self._began = began
        self._is_free = is_free
        # Members with a link that was lost, or did not come up in time, and is not up again.
        self._down: set[BrokerId] = set()
        # Members that others have lost, and whether they had been up in this view.
        self._lost_elsewhere: dict[BrokerId, bool] = {}
        # The members' incarnations (start times), as far as known.
        self._lives: dict[BrokerId, int] = {}
        self._joiners: dict[BrokerId, int] = {}
        self._leaving_brokers: set[BrokerId] = set()
        self._is_renewing = self._is_gathering = self._is_waiting = self._is_to_tidy = False
        self.is_leaving = self.has_left = self._has_asked = False
        # The positions before this broker's last swap of members, if any.
        self.before: tuple[BrokerId, ...] = ()
        # Messages sent for views since they were last asked for.
        self._spent = 0
        # Whether an earlier incarnation of this broker may have been in a view; and the first view
        # with this incarnation, since others had some without it.
        self._may_have_been = False
        self._since: Age | None = None
        self._coordinates = MemberCoordinates(self.broker, parameters.places_on_earth)
        first = parameters.brokers or tuple(sorted({self.broker, *context.neighbours}))
        coordinates, per_gateway = self._coordinates.of(first), parameters.per_gateway
        view = View(0, "", first, per_gateway=per_gateway, coordinates=coordinates)
        self._start_in(view if context.is_founder and self.broker in first else None)

    def _start_in(self, view: View | None) -> None:
        """Start in a view, or outside until members admit this broker."""
        self.view = self.latest = view
        self._by_name = () if view is None else tuple(sorted(view.members))
        self.places = None if view is None else self._place(view)

    @property
    def others(self) -> tuple[BrokerId, ...]:
        """The other members of the view that this broker is in."""
        members = () if self.view is None else self.view.members
        return tuple(each for each in members if each != self.broker)

    def may_have_been_in(self, age: Age) -> bool:
        """Whether an earlier incarnation of this broker may have been in the view of that age.

        A member starts in its last view, from its disk, and so enters later ones only. A member
        that has lost its disk is let in by a view later than those of its earlier incarnation.
        """
        return self._may_have_been and (self._since is None or age < self._since)

    def spend(self, messages: int) -> None:
        """Count messages that are sent for a view."""
        self._spent += messages

    def take_spent(self) -> int:
        """Number of messages sent for views since the last call."""
        spent, self._spent = self._spent, 0
        return spent

    @property
    def unmet(self) -> Collection[BrokerId]:
        """The brokers that this one waits for before it is in a view."""
        opened = self.links.opened
        return [] if self.view is not None else [each for each in opened if each not in self.met]

    # --- inputs -------------------------------------------------------------------------------

    def start(self, facts: Mapping[str, Any], now_us: int, out: list[Effect]) -> None:
        self.life = now_us
        known = known_view(facts, self._parameters.per_gateway)
        if known is not None:
            self._may_have_been = True
            self._start_in(known)
        if self.others:
            self._wait(now_us, out)
        for neighbour in self.links.linked:
            out.append(LinkReady(neighbour))
            self._introduce(neighbour, out)
        self._open_links(out)

    def timer(self, name: str, now_us: int, out: list[Effect]) -> None:
        match name:
            case "gather":
                self._is_gathering = False
                self._make_view(now_us, out)
            case "retry":
                self.links.retry()
            case "tidy":
                self._is_to_tidy = False
                if self.view is not None and not self.has_left:
                    self.links.tidy(self._needed, self.view.members, out)
            case "patience":
                self._is_waiting = False
                # Members that this broker needs no link with are waited for by their neighbours.
                for member in self._needed:
                    if member in self.others and member not in self.met:
                        self._lose(member, had_been_up=False, out=out)
        self._look(now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        had_been_up = neighbour in self.links.linked
        is_lost = self.links.changed(neighbour, state, now_us, out)
        if state is LinkState.UP:
            self._introduce(neighbour, out)
        elif state is LinkState.ENDED or not had_been_up:
            self._joiners.pop(neighbour, None)
        if is_lost:
            self._lose(neighbour, had_been_up=True, out=out)
        self._look(now_us, out)

    def departed(self, neighbour: BrokerId) -> None:
        """A neighbour whose link has failed will not come back over it."""
        self.links.departed(neighbour)

    def receive(
        self, neighbour: BrokerId, message: MembersMessage, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case Introduction(life, view, knows, coordinates):
                self._coordinates.note(neighbour, coordinates)
                self._may_have_been |= knows not in (None, self.life)
                self._greeted(neighbour, life, out)
                self._on_view(view, neighbour, now_us, out)
            case ViewSaid(view):
                self._on_view(view, neighbour, now_us, out)
            case JoinWanted(broker, life, coordinates):
                self._coordinates.note(broker, coordinates)
                self._join(broker, life, neighbour, out)
            case LeaveRequest():
                self._leaving_brokers.add(neighbour)
            case StayWanted():
                self._leaving_brokers.discard(neighbour)
            case EndWanted():
                self.links.end_wanted(neighbour, self._needed, out)
            case EndRefused():
                self.links.end_refused(neighbour)
            case LinkLost(age, broker, had_been_up):
                self._link_lost(age, broker, had_been_up=had_been_up, out=out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")
        self._look(now_us, out)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """Leave when nothing is in transit here; `Left` follows then."""
        self.is_leaving = True
        self._look(now_us, out)

    def stay(self, out: list[Effect]) -> None:
        """Cancel the leave; a view made without this broker admits it again.

        ProtocolError when there is such a view already.
        """
        if self.has_left:
            raise ProtocolError("it is in no view any more")
        if self.is_leaving:
            self.is_leaving = False
            self._leaving_brokers.discard(self.broker)
            out.extend(Send(each, StayWanted()) for each in sorted(self.links.linked))

    @property
    def problem(self) -> str:
        """The broker that holds up the leave."""
        if self.has_left:
            return f"its links to {', '.join(sorted(self.links.linked))} have yet to end"
        if self.manager != self.broker:
            return f"{self.manager} has yet to make a view without it"
        unmet = [each for each in self.others if each not in self.met]
        return f"no link to {', '.join(unmet)}" if unmet else ""

    # --- members ------------------------------------------------------------------------------

    def _introduce(self, neighbour: BrokerId, out: list[Effect]) -> None:
        self.spend(1)
        knows, own = self._lives.get(neighbour), self._coordinates.own
        out.append(Send(neighbour, Introduction(self.life, self.latest, knows, own)))

    def _greeted(self, neighbour: BrokerId, life: int, out: list[Effect]) -> None:
        self.met[neighbour] = life
        known = self._lives.setdefault(neighbour, life)
        if known != life:
            self._leaving_brokers.discard(neighbour)  # its earlier life wanted to leave
        if known == life:
            self._down.discard(neighbour)
        elif neighbour in self.others:
            self._lose(neighbour, had_been_up=True, out=out)  # it has started anew meanwhile
        if neighbour == self.manager:
            self._report_all(out)

    def _lose(self, broker: BrokerId, *, had_been_up: bool, out: list[Effect]) -> None:
        view = self.view
        if view is None or broker not in self.others:
            return
        former = self.manager
        self._down.add(broker)
        if had_been_up:
            self.links.broken.add(broker)
            self._is_renewing = True
        if self.manager != former:
            self._report_all(out)
        else:
            self._send_to_manager(LinkLost(view.age, broker, had_been_up), out)

    def _link_lost(
        self, age: Age, broker: BrokerId, *, had_been_up: bool, out: list[Effect]
    ) -> None:
        view = self.view
        if view is not None and age == view.age and broker in view.members:
            self._is_renewing = self._is_renewing or had_been_up
            self._lost_elsewhere[broker] = self._lost_elsewhere.get(broker, False) or had_been_up
            # A broker that was skipped as manager may be back, and takes this one for the manager.
            if not self.is_manager:
                self._send_to_manager(LinkLost(age, broker, had_been_up), out)

    def _join_wanted(self, broker: BrokerId, life: int) -> JoinWanted:
        return JoinWanted(broker, life, self._coordinates.get(broker))

    def _join(self, broker: BrokerId, life: int, neighbour: BrokerId, out: list[Effect]) -> None:
        view = self.latest
        if view is not None and view.lives.get(broker) == life:
            out.append(Send(neighbour, ViewSaid(view)))
        elif self._joiners.get(broker, -1) < life:
            self._joiners[broker] = life
            self._send_to_manager(self._join_wanted(broker, life), out)

    # --- the manager --------------------------------------------------------------------------

    @property
    def manager(self) -> BrokerId:
        """The first connected member, as far as this one knows; this one at the latest."""
        return next(self._connected(), self.broker)

    @property
    def may_manage(self) -> bool:
        """Whether this is the manager, or its successor."""
        return self.broker in self._managers()

    def _managers(self) -> list[BrokerId]:
        return list(islice(self._connected(), MANAGERS))

    def _connected(self) -> Iterator[BrokerId]:
        """The members of the view without those that are down, by name."""
        return (each for each in self._by_name if each not in self._down)

    @property
    def is_manager(self) -> bool:
        return self.manager == self.broker

    def rearrange(
        self, members: tuple[BrokerId, ...], now_us: int, out: list[Effect], *, is_held: bool
    ) -> bool:
        """Have the members of the manager's view change positions; False if it cannot now."""
        view = self.view
        assert view is not None
        assert sorted(members) == sorted(view.members)
        if self.latest is not view or any(each not in self.met for each in self.others):
            return False
        if members != view.members:
            self.before = view.members
        lives = {each: self.met.get(each, self.life) for each in members}
        # A member that has been away may have restarted: then all is announced anew.
        is_steady = not (self._is_renewing or self._down or self._lost_elsewhere)
        made = self._made(
            view.version + 1,
            members,
            lives,
            is_held=is_held,
            base=view.age if is_steady else None,
        )
        self._on_view(made, self.broker, now_us, out)
        return True

    def _send_to_manager(self, message: MembersMessage, out: list[Effect]) -> None:
        """Send a message to the manager; a new manager gets all of them."""
        if self.manager in self.met:
            out.append(Send(self.manager, message))

    def _report_all(self, out: list[Effect]) -> None:
        """Send all facts that the present manager needs."""
        if self.view is None:
            return
        # Nothing passes a broken link in this view, also if that member is back, or the manager.
        for broker in sorted(self._down | self.links.broken | self._lost_elsewhere.keys()):
            was_up = broker in self.links.broken or self._lost_elsewhere.get(broker, False)
            self._send_to_manager(LinkLost(self.view.age, broker, was_up), out)
        for broker, life in self._joiners.items():
            self._send_to_manager(self._join_wanted(broker, life), out)
        if self.is_leaving and not self.has_left and self._is_free():
            self._send_to_manager(LeaveRequest(), out)

    def _look(self, now_us: int, out: list[Effect]) -> None:
        """Act on changes of links and members."""
        if self.has_left:
            self._end_links(out)
            return
        if self.is_leaving and self._is_free():
            self._ask_to_leave(out)
        if self.view is not None and self.manager not in (self.broker, *self.met):
            # It may be dead, too, and this broker had no link with it that could fail.
            self._wait(now_us, out)
        elif self.manager == self.broker and self.view is not None and self._is_to_change:
            self._gather(now_us, out)
        self._open_links(out)

    def _ask_to_leave(self, out: list[Effect]) -> None:
        if self.view is None or not self.others:
            self.has_left = True
            self._end_links(out)
        elif self.manager == self.broker:
            self._leaving_brokers.add(self.broker)
        else:
            self._send_to_manager(LeaveRequest(), out)

    @property
    def _is_to_change(self) -> bool:
        assert self.view is not None
        return bool(
            self._is_renewing
            or self._down
            or any(self._is_awaited(broker) for broker in self._joiners)
            or not self._leaving_brokers.isdisjoint(self.view.members)
        )

    def _is_awaited(self, joiner: BrokerId) -> bool:
        return self.met.get(joiner) == self._joiners[joiner]

    def _gather(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_gathering:
            self._is_gathering = True
            out.append(SetTimer(GATHER, now_us + self._parameters.gather_us))

    def _wait(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            out.append(SetTimer(PATIENCE, now_us + self._parameters.patience_us))

    def _make_view(self, now_us: int, out: list[Effect]) -> None:
        """Make the next view, if there is to be one and it is this broker's to make."""
        view = self.view
        if self.has_left or view is None or self.manager != self.broker or not self._is_to_change:
            return
        if any(each in self.links.linked and each not in self.met for each in view.members):
            self._gather(now_us, out)  # a reconnected member announces itself in a moment
            return
        # A restarted and reconnected member stays: it has missed no message.
        gone = {each for each in self._down if each not in self.met} | self._leaving_brokers
        stay = [each for each in view.members if each not in gone]
        if any(each not in self.met for each in stay if each != self.broker):
            self._wait(now_us, out)  # members that do not connect by then are lost
            return
        come = [each for each in self._joiners if self._is_awaited(each) and each not in stay]
        assert self.places is not None
        members = self.places.followed_by(gone, come)
        if not members:
            return
        lives = {each: self.met.get(each, self.life) for each in members}
        latest = view if self.latest is None else self.latest
        made = self._made(latest.version + 1, members, lives, is_held=latest.is_held)
        self._on_view(made, self.broker, now_us, out)

    def _made(
        self,
        version: int,
        members: tuple[BrokerId, ...],
        lives: Mapping[BrokerId, int],
        *,
        is_held: bool,
        base: Age | None = None,
    ) -> View:
        per_gateway = self._parameters.per_gateway
        coordinates = self._coordinates.of(members)
        return View(version, self.broker, members, lives, is_held, per_gateway, base, coordinates)

    # --- views --------------------------------------------------------------------------------

    def _on_view(self, view: View | None, source: BrokerId, now_us: int, out: list[Effect]) -> None:
        if self.has_left:
            return
        if view is not None and not view.is_sound:
            raise ProtocolError(f"{source} knows of a view that cannot be")
        latest = self.latest
        if view is None or (latest is not None and view.age <= latest.age):
            if latest is not None and (view is None or view.age < latest.age):
                if source in self.links.linked:
                    out.append(Send(source, ViewSaid(latest)))
            elif latest is not None and not self._is_in(latest):
                self._want_to_join(source, out)
            return
        self.latest = view
        self._coordinates.learn(view.coordinates)
        self._pass_on(view, source, out)
        if self._is_in(view):
            self._begin(view, now_us, out)
        elif self.is_leaving and self._is_free():
            self.has_left = True
        else:
            self._want_to_join(source, out)

    def _pass_on(self, view: View, source: BrokerId, out: list[Effect]) -> None:
        """Send others a view that is news here.

        The maker is linked to all members and sends it to each; if a link breaks under it there is
        a new view. So members pass on a change of positions to brokers alone that are no members.
        Any other view goes from neighbour to neighbour: some links are about to be given up.
        """
        goes_to = sorted(each for each in self.links.linked if each != source)
        if view.base is not None and source == view.maker != self.broker:
            goes_to = [each for each in goes_to if each not in view.lives]
        self.spend(len(goes_to))
        passed_on = ViewSaid(view)
        out.extend(Send(each, passed_on) for each in goes_to)

    def _is_in(self, view: View) -> bool:
        return view is self.view or view.lives.get(self.broker) == self.life

    def _want_to_join(self, over: BrokerId, out: list[Effect]) -> None:
        self._has_asked = True
        if over in self.links.linked:
            out.append(Send(over, self._join_wanted(self.broker, self.life)))

    def _begin(self, view: View, now_us: int, out: list[Effect]) -> None:
        """This broker is in a new view."""
        if self.view is None or self._has_asked:
            # Others had views without this incarnation, perhaps with an earlier one.
            self._may_have_been, self._since = True, view.age
        self._since = self._since or view.age
        self._has_asked = False
        self.view = view
        self._by_name = tuple(sorted(view.members))
        self.places = self._place(view)
        out.append(Remember(view.facts))
        self.links.broken.clear()
        self.links.over.clear()
        self._lost_elsewhere.clear()
        self._is_renewing = False
        self._down &= set(view.members)
        self._down -= {each for each, life in self.met.items() if view.lives.get(each) == life}
        self._lives = dict(view.lives)
        self._leaving_brokers &= set(view.members)
        self._joiners = {
            each: life for each, life in self._joiners.items() if view.lives.get(each, -1) < life
        }
        self._open_links(out)
        self.tidy_later(now_us, out)
        self._report_all(out)
        self._began(now_us, out)

    # --- links --------------------------------------------------------------------------------

    @property
    def _needed(self) -> Collection[BrokerId]:
        """The other members that the tables need, and the managers; a manager needs all."""
        view, places, me = self.view, self.places, self.broker
        if view is None or places is None:
            return ()
        managers = self._managers()
        needed = (*places.linked_to(me), *(view.members if me in managers else managers))
        return dict.fromkeys(needed)

    def _open_links(self, out: list[Effect]) -> None:
        if self.view is not None and not self.has_left:
            self.links.open(self._needed, self._joiners if self.is_manager else (), out)

    def ask(self, brokers: Collection[BrokerId], now_us: int, out: list[Effect]) -> None:
        """The system wants links with these beside, and so do they."""
        self.links.asked = tuple(brokers)
        self._open_links(out)
        self.tidy_later(now_us, out)

    def tidy_later(self, now_us: int, out: list[Effect]) -> None:
        """The needed links have changed: end others in a while."""
        if not self._is_to_tidy:
            self._is_to_tidy = True
            out.append(SetTimer(TIDY, now_us + self._parameters.linger_us))

    def _end_links(self, out: list[Effect]) -> None:
        """End all links, once; without any the broker has left."""
        if not self.links.linked:
            out.append(Left())
        self.links.end_all(out)
