"""Of a file of an attempt one gets the last lines that fit, with their numbers."""

import pytest

from eventflink.rest.own.attempt_files import end_of


@pytest.mark.parametrize(
    ("last_bytes", "first_line", "text"),
    [
        (100, 1, "one\ntwo\nthree\n"),
        (14, 1, "one\ntwo\nthree\n"),
        (13, 2, "two\nthree\n"),
        (10, 2, "two\nthree\n"),
        (9, 3, "three\n"),
        (3, 3, "ee\n"),
    ],
)
def test_the_end_of_a_file_begins_with_a_whole_line_unless_that_is_too_long(last_bytes: int, first_line: int, text: str) -> None:
    found = end_of(b"one\ntwo\nthree\n", last_bytes)
    assert (found.size_bytes, found.first_line, found.text) == (14, first_line, text)


def test_what_is_no_text_does_not_break_the_rest() -> None:
    assert end_of(b"\xff\xfe ok\n", 100).text == "\ufffd\ufffd ok\n"


def test_an_empty_file_has_no_line() -> None:
    assert end_of(b"", 1) == end_of(b"", 100)
