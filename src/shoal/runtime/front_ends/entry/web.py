"""HTTP requests to servers: bounded in time and in the size of the answer.

`httpx` is a package of the extra `access`: brokers without such requests do not need it.
"""

from __future__ import annotations

import importlib
import logging
import ssl
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

# More than this is no answer.
MOST_BYTES = 65_536


class MissingError(ImportError):
    """A package is needed that is not installed."""


def needed(package: str, key: str) -> ModuleType:
    """A package of the extra `access`; MissingError says which key of the network file needs it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        problem = f"{key}: needs the package {package}; pip install 'shoal[access]'"
        raise MissingError(problem) from None


class Web:
    """Asks one server; `connections` are open to it at once at most."""

    def __init__(
        self, key: str, authority: str, timeout_s: float, connections: int, bearer: str = ""
    ) -> None:
        """OSError or ValueError where the authority's certificate cannot be read."""
        self._httpx: Any = needed("httpx", key)
        self._tls = ssl.create_default_context(cafile=authority) if authority else None
        self._timeout_s = timeout_s
        # Compressed content could have any size once it is unpacked.
        self._headers = {"Accept-Encoding": "identity"}
        if bearer:
            self._headers["Authorization"] = f"Bearer {bearer}"
        self._connections = connections
        self._client: httpx.AsyncClient | None = None
        # It has a line for each request.
        logging.getLogger("httpx").setLevel(logging.WARNING)

    async def exchange(
        self, method: str, url: str, said: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """The status code and the body of the answer; OSError where there is none."""
        if self._client is None:
            limits = self._httpx.Limits(max_connections=self._connections)
            tls = self._tls or (ssl.create_default_context() if url.startswith("https") else True)
            self._client = self._httpx.AsyncClient(
                verify=tls,
                timeout=self._timeout_s,
                limits=limits,
                headers=self._headers,
                trust_env=False,
            )
        try:
            async with self._client.stream(method, url, json=said) as response:
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MOST_BYTES:
                        raise OSError(f"the answer has more than {MOST_BYTES} bytes")
                return response.status_code, bytes(body)
        except (self._httpx.HTTPError, self._httpx.InvalidURL, RuntimeError) as error:
            # A RuntimeError where the client was closed meanwhile, as by a reload.
            raise OSError(str(error) or type(error).__name__) from None

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()
