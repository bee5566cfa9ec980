"""Messages between brokers of a tree beside those of clients: end markers (`exchange.py`)."""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary


class AdvertisementsSaid(Message, frozen=True):
    """End marker: all advertisements from elsewhere are sent; stale ones are to be removed."""

    introduces = True


class SubscriptionsSaid(Message, frozen=True):
    """End marker: all subscriptions that follow the receiver's advertisements are sent.

    The receiver may send publications from then on.
    """

    introduces = True


MESSAGES: Vocabulary = (AdvertisementsSaid, SubscriptionsSaid)
