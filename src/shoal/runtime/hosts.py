"""By which names a web browser may have come to a listener.

The owner of a name can make it resolve to an address of a visitor's machine or network, once a page
under it is loaded (DNS rebinding). To the browser page and listener are then one host, so the page
may send any request and read the answers. But the browser sends the name, which is not a name of
the listener.

>>> names = {"b1.example.org"}
>>> [is_own_host(each, names) for each in ("B1.example.org:9001", "127.0.0.1:9001", "[::1]")]
[True, True, True]
>>> [is_own_host(each, names) for each in ("localhost", "b1.localhost:80", "evil.example:9001")]
[True, True, False]
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Return whether a request's `Host` is an address, this machine, or one of these names.

    `names` are in small letters.
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if name is None:
        return False
    name = name.removesuffix(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost") or name in names
    return True
