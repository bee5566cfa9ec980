"""Work measured by counting calls, as times depend on the load of the machine."""

from __future__ import annotations

from cProfile import Profile


class Calls:
    """Counts the calls of functions while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        self._profile = Profile()
        self._profile.enable()
        return self

    def __exit__(self, *error: object) -> None:
        self._profile.disable()
        self.count = sum(entry.callcount for entry in self._profile.getstats())
