"""The Python client of a live network."""

from shoal.client.client import Client
from shoal.client.endpoint import Tls
from shoal.client.subscription import Message, Subscription
from shoal.client.terms import ClientError, Keep, Will

__all__ = ["Client", "ClientError", "Keep", "Message", "Subscription", "Tls", "Will"]
