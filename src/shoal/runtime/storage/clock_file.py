"""Records the time until which a broker has run, so that its next incarnation begins later.

A broker numbers its publications by its clock, and of two entries about one thing the later wins.
So its clock may not run back from one incarnation to the next, though its machine's may: one
without a battery begins in the past, and a wrong clock is corrected. Each second the time is
written to a file, over the former one, beside the machine's uptime. So until a reboot the next
incarnation continues with the same clock, to the microsecond: a clock further ahead of other
brokers' would win against later entries about clients that have moved. A great step makes up for
the time of a reboot.

>>> first_us(wall_us=9_000_000, lived_until_us=5_000_000, since_us=4_000_000)  # all is well
9000000
>>> first_us(wall_us=1_000_000, lived_until_us=5_000_000, since_us=4_000_000)  # it was set back
9000000
>>> first_us(wall_us=1_000_000, lived_until_us=5_000_000, since_us=None)  # and restarted
65000000
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from shoal.boots import this_boot
from shoal.runtime.driving.timing.clock import Clock

FILE = "clock"
# Interval of writes.
EVERY_S = 1.0
# A life may have lasted so much longer than its file says; the system writes within half a minute.
_LOST_US = 60_000_000
_NANOSECONDS = 1_000

_log = logging.getLogger(__name__)


def first_us(wall_us: int, lived_until_us: int, since_us: int | None) -> int:
    """Return when a life begins: when its machine says, unless the one before may have lasted
    longer.

    `since_us` has passed since its last word by the machine's own count, if that has not restarted.
    """
    if since_us is not None:
        return max(wall_us, lived_until_us + since_us)
    return wall_us if wall_us > lived_until_us else lived_until_us + _LOST_US


class ClockFile:
    """The file of one broker, in a locked folder, and the clock that follows it.

    A file that cannot be read or written is ignored; the log says so.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._timer: asyncio.TimerHandle | None = None
        # Stays open: clients may have all other files that the process may have.
        self._file = -1
        self._is_failing = False
        self._boot = this_boot()
        lived_until_us, since_us = self._read_clock()
        wall_us = time.time_ns() // _NANOSECONDS
        self.clock = Clock(first_us(wall_us, lived_until_us, since_us))
        if wall_us < lived_until_us:
            behind_s = (self.clock.now_us() - wall_us) / 1_000_000
            extra = {"seconds": round(behind_s, 3)}
            _log.warning("the machine's clock was set back; this broker's is ahead", extra=extra)
        self._write()

    def start(self) -> None:
        """Write each second from now on."""
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._write_clock)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._write()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write_clock(self) -> None:
        self._write()
        self.start()

    def _read_clock(self) -> tuple[int, int | None]:
        """Until when a former life lasted, and how long ago, if the machine has run since."""
        with suppress(FileNotFoundError):
            try:
                until, ran, *boot = self._path.read_text(encoding="ascii").split()
                is_same = bool(self._boot) and boot == [self._boot]
                return int(until), _ran_us() - int(ran) if is_same else None
            except ValueError:
                _log.warning("cannot be read, and is not used", extra={"file": str(self._path)})
        return 0, None

    def _write(self) -> None:
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Always of equal length: a broker killed meanwhile leaves a readable file.
            text = f"{self.clock.now_us():020} {_ran_us():020} {self._boot}\n"
            os.pwrite(self._file, text.encode(), 0)
        except OSError as error:
            if not self._is_failing:
                extra = {"file": str(self._path), "problem": str(error)}
                _log.warning("the time cannot be written", extra=extra)
            self._is_failing = True
        else:
            self._is_failing = False


def _ran_us() -> int:
    """For how long the machine has run, as all of its processes count."""
    return time.monotonic_ns() // _NANOSECONDS
