"""What brokers of a tree say when they have told each other their tables (`exchange.py`)."""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary


class AdvertisementsSaid(Message, frozen=True):
    """To a neighbour: all advertisements from elsewhere are said, those not said are gone."""

    introduces = True


class SubscriptionsSaid(Message, frozen=True):
    """To a neighbour, who has said its advertisements: so are all subscriptions that follow them.

    It may send publications from now on.
    """

    introduces = True


MESSAGES: Vocabulary = (AdvertisementsSaid, SubscriptionsSaid)
