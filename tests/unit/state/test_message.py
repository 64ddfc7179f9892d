"""Messages come back as they were; a head that cannot be is the end of the file."""

from __future__ import annotations

import io
import struct

import pytest

from sluice.state.message import Message


def data_of(message: Message) -> bytes:
    file = io.BytesIO()
    message.write(file.write)
    return file.getvalue()


@pytest.mark.parametrize("message", [Message((), []), Message((1, -2), [b"", b"abc"])])
def test_a_message_comes_back_as_it_was(message):
    data = data_of(message)
    assert len(data) == message.size
    assert Message.read(io.BytesIO(data)) == message


@pytest.mark.parametrize("counts", [(1 << 60, 0), (0, 1 << 60), (-1, 2), (1 << 62, 1 << 62)])
def test_absurd_counts_are_not_made_room_for(counts):
    with pytest.raises(EOFError):
        Message.read(io.BytesIO(struct.pack("<2q", *counts)))


def test_a_negative_length_does_not_read_all():
    with pytest.raises(EOFError):
        Message.read(io.BytesIO(struct.pack("<3q", 0, 1, -1) + b"rest"))
