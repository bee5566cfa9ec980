"""`host:port`, as network files and options write it.

>>> read_address("[::1]:1883"), str(read_address("localhost:0"))
(Address(host='::1', port=1883), 'localhost:0')
>>> read_address("1883")
Traceback (most recent call last):
ValueError: '1883' is not host:port, such as 127.0.0.1:1883 or [::1]:1883
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple


class Address(NamedTuple):
    """Address of a listener; with port 0 the system picks a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_anywhere(self) -> bool:
        """Return whether it is all addresses of a machine: good to listen at, and none to connect
        to.
        """
        return self.host in ("0.0.0.0", "::")

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def read_address(text: str) -> Address:
    """The address that a text names; ValueError when it names none."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:\s]+)):(\d{1,5})", text)
    if found is None or int(found[3]) > 65_535:
        raise ValueError(f"{text!r} is not host:port, such as 127.0.0.1:1883 or [::1]:1883")
    return Address(found[1] or found[2], int(found[3]))


def is_somewhere(text: str) -> bool:
    """Return whether other machines can connect to the address that a text names.

    >>> [is_somewhere(text) for text in ("b1.example.org:1883", "0.0.0.0:1883", "b1:0", "?")]
    [True, False, False, False]
    """
    try:
        address = read_address(text)
    except ValueError:
        return False
    return bool(address.port) and not address.is_anywhere
