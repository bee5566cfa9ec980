"""Sorted names, a page at a time, while names come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from shoal.runtime import listing
from shoal.runtime.listing import StatusListing
from tests.runtime.live import on_loop, until


class Names:
    """The present names, in the order of their arrival."""

    def __init__(self, count: int) -> None:
        names = [f"c{number:04}" for number in range(count)]
        Random(1).shuffle(names)
        self.there = dict.fromkeys(names)
        self.taken = 0
        self.listing = StatusListing(self._take, self.there.__contains__)

    def _take(self) -> list[str]:
        self.taken += 1
        return list(self.there)

    async def listed(
        self, most: int, meanwhile: Callable[[int], None] = lambda page: None
    ) -> list[str]:
        """All pages; `meanwhile` is called after each."""
        found: list[str] = []
        first: str | None = ""
        pages = 0
        while first is not None:
            names, first = await self.listing.page(first, most)
            assert len(names) <= most
            found += names
            meanwhile(pages)
            pages += 1
        return found


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "RUN", 100)


@on_loop
async def test_many_names_are_sorted_once_for_all_pages() -> None:
    """A sort for each page would take 0.15 s for 200,000."""
    names = Names(1_000)
    assert await names.listed(30) == sorted(names.there)
    assert names.taken == 1


@on_loop
async def test_sorting_names_does_not_block_the_loop() -> None:
    names, rounds = Names(1_000), [0]

    def come_round() -> None:
        rounds[0] += 1
        asyncio.get_running_loop().call_soon(come_round)

    come_round()
    await names.listing.page("", 10)
    assert rounds[0] >= 9


@on_loop
async def test_simultaneous_listings_share_one_sort() -> None:
    names = Names(1_000)
    pages = await asyncio.gather(*(names.listing.page("", 10) for _ in range(20)))
    assert pages == [pages[0]] * 20
    assert names.taken == 2  # for the first, and for those that came after its start


@on_loop
async def test_removed_names_are_omitted_and_new_ones_in_the_next_listing() -> None:
    names = Names(1_000)
    everybody = sorted(names.there)

    def come_and_go(page: int) -> None:
        for name in everybody[page * 60 + 30 : page * 60 + 60]:
            names.there.pop(name, None)
        names.there[f"new {page:04}"] = None

    stay = [name for number, name in enumerate(everybody) if number % 60 < 30]
    assert await names.listed(30, come_and_go) == stay
    assert names.taken == 1
    assert await names.listed(30) == sorted(names.there)


@on_loop
async def test_a_page_reads_a_bounded_number_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 200)
    names = Names(1_000)
    first, _ = await names.listing.page("", 1)
    last = max(names.there)
    for name in sorted(names.there)[1:-1]:
        del names.there[name]
    names_found, more = await names.listing.page(first[0], 10)
    assert (names_found, more) == (first, "c0200")
    names.taken = 0
    found: list[str] = []
    while more is not None:
        page, more = await names.listing.page(more, 10)
        found += page
    assert (found, names.taken) == ([last], 0)


@on_loop
async def test_sorted_names_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "KEPT_S", 0.01)
    names = Names(1_000)
    _, more = await names.listing.page("", 10)
    await until(lambda: not names.listing._runs)
    assert more is not None
    names.there["c0010 is new"] = None
    assert await names.listing.page(more, 2) == (["c0010", "c0010 is new"], "c0011")


@on_loop
async def test_a_few_names_are_read_anew_for_each_page() -> None:
    names = Names(50)
    found = await names.listed(30, lambda page: names.there.setdefault(f"new {page}"))
    assert found == sorted(name for name in names.there if name != "new 1")
