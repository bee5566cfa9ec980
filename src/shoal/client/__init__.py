"""The Python client of a live network."""

from shoal.client.client import Client, ClientError, Message, Subscription

__all__ = ["Client", "ClientError", "Message", "Subscription"]
