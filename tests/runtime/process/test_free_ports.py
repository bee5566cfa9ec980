"""Free ports that one process has got are given to no other while it lives."""

from __future__ import annotations

import socket

import pytest

from shoal.runtime import free_ports
from shoal.runtime.free_ports import PortBlocks

HOST = "127.0.0.1"


def test_no_port_is_given_to_two() -> None:
    ours, theirs = PortBlocks(), PortBlocks()
    found = [ours.free(HOST, 150), theirs.free(HOST, 150), ours.free(HOST, 150)]
    assert not set(found[0] + found[2]) & set(found[1])
    assert [len(set(ports)) for ports in found] == [150] * 3


def test_a_released_port_is_given_again_last() -> None:
    ours = PortBlocks()
    first = ours.free(HOST, 1)
    others = ours.free(HOST, 150)
    assert first[0] not in others
    assert first[0] in ours.free(HOST, 199)


def test_a_port_in_use_is_skipped() -> None:
    ours = PortBlocks()
    everything = ours.free(HOST, 199)
    with socket.create_server((HOST, everything[3])):
        assert everything[3] not in ours.free(HOST, 198)


def test_no_free_port_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "_END", free_ports._FIRST + free_ports._BLOCK)
    with pytest.raises(OSError, match="no ports are free"):
        PortBlocks().free(HOST, 2 * free_ports._BLOCK)
