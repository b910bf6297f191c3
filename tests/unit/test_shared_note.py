"""What a process has noted can be read when it is dead, and its guardian sees whether it is still at the same."""

import signal
import subprocess
import sys

import pytest

from eventflink.entrypoint.guardian import HANG_LEASES, HANG_LOOKS, LOOKS_PER_LEASE, HangWatch, Will, line_of, will_of
from eventflink.processes.shared_note import MAX_BYTES, Noted, SharedNote

WRITER = """
import os, signal, sys
from eventflink.processes.shared_note import SharedNote
note = SharedNote(int(sys.argv[1]))
note.write("submissions@16")
note.write("submissions@17")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_noted_last_is_read_when_its_writer_was_killed() -> None:
    note = SharedNote.make()
    assert note.read() == Noted("", 0)
    command = [sys.executable, "-c", WRITER, str(note.descriptor)]
    ended = subprocess.run(command, pass_fds=[note.descriptor], check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert note.read() == Noted("submissions@17", 2)
    note.close()


@pytest.mark.parametrize("text", ["", "a", "é" * MAX_BYTES, "x" * MAX_BYTES, "x" * (MAX_BYTES + 1), "\ud800"])
def test_any_text_is_noted_and_one_that_is_too_long_is_cut(text: str) -> None:
    note = SharedNote.make()
    note.write("before")
    note.write(text)
    read = note.read()
    assert read.count == 2
    assert text.startswith(read.text.rstrip("\ufffd")) or read.text == "?"
    assert len(read.text.encode()) <= MAX_BYTES + 2
    note.close()


def test_a_master_hangs_that_is_at_the_same_input_look_after_look_and_at_no_other_nor_again() -> None:
    watch, begins = HangWatch(), []
    for number in range(LOOKS_PER_LEASE * HANG_LEASES):
        assert not watch.is_for_good
        watch.look(Noted("submissions@17", 5))
        begins += [number] * watch.is_new
    assert begins == [HANG_LOOKS], "it is said once"
    assert not watch.is_for_good
    watch.look(Noted("submissions@17", 5))
    assert watch.is_for_good
    for noted in (Noted("submissions@17", 6), Noted("", 7), Noted("", 7)):
        watch.look(noted)
        assert watch.looks == 0


@pytest.mark.parametrize("will", [None, Will(12, b"\xc3\x01\0", b"\xc3\x01\x02")])
def test_a_will_is_a_line(will: Will | None) -> None:
    assert will_of(line_of(will)) == will
