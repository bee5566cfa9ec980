"""Fields of packets: their bounds, and errors with the field's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.mqtt.codec.errors import MqttError
from shoal.mqtt.codec.fields import MAX_VARIABLE, FieldReader, write_binary, write_variable


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"),
     (2_097_151, "ffff7f"), (2_097_152, "80808001"), (MAX_VARIABLE, "ffffff7f")],
)  # fmt: skip
def test_variable_byte_integers_have_the_standards_bytes(value: int, text: str) -> None:
    """Table 1-1 of section 1.5.5."""
    assert write_variable(value).hex() == text
    assert FieldReader(bytes.fromhex(text), "TEST").variable("x") == value


@given(st.integers(0, MAX_VARIABLE))
def test_variable_byte_integers_read_back(value: int) -> None:
    assert FieldReader(write_variable(value), "TEST").variable("x") == value


def test_too_large_values_are_errors() -> None:
    for value in (-1, MAX_VARIABLE + 1):
        with pytest.raises(ValueError, match="does not fit"):
            write_variable(value)
    with pytest.raises(ValueError, match="65536 bytes"):
        write_binary(bytes(65_536))


def test_a_part_cannot_reach_beyond_its_packet() -> None:
    with pytest.raises(MqttError, match="TEST ends within its properties"):
        FieldReader(bytes.fromhex("0500"), "TEST").part("properties")
    reader = FieldReader(bytes.fromhex("02 0102 03"), "TEST")
    assert reader.part("properties")[1:] == (1, 3)
    assert reader.rest() == b"\x03"
    with pytest.raises(MqttError, match="ends before its flag"):
        reader.byte("flag")


@pytest.mark.parametrize("text", ["8080808000", "ffffffff01", "8000", "80"])
def test_malformed_variable_byte_integers_are_errors(text: str) -> None:
    with pytest.raises(MqttError):
        FieldReader(bytes.fromhex(text), "TEST").variable("x")


@pytest.mark.parametrize("text", ["", "00", "0002 61"])
def test_truncated_binary_data_is_an_error(text: str) -> None:
    with pytest.raises(MqttError, match="TEST ends within its data"):
        FieldReader(bytes.fromhex(text), "TEST").binary("data")


def test_errors_name_the_field() -> None:
    for data, what in (
        ("0002 61", "ends within"),
        ("0001 ff", "not UTF-8 at byte 0"),
        ("0001 00", "U\\+0000"),
    ):
        with pytest.raises(MqttError, match=what):
            FieldReader(bytes.fromhex(data), "TEST").string("name")
