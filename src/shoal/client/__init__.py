"""The Python client of a live network."""

from shoal.client.client import Client, ClientError
from shoal.client.endpoint import Tls
from shoal.client.subscription import Message, Subscription

__all__ = ["Client", "ClientError", "Message", "Subscription", "Tls"]
