"""What brokers of a tree say to each other beside what clients say, too.

When a link has come up they say when all of their tables is said (`exchange.py`).
"""

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
