"""What processes have of themselves to read, in Flink's shapes: lists of logs, and stacks of threads."""

import re
from typing import Final

from pydantic import Field

from eventflink.rest.flink.shapes import Shape

_THREAD: Final = re.compile(r'^Thread (?P<ident>\d+) (?:"(?P<name>.*)")?', re.MULTILINE)
"""The first line of what `dump_threads` writes of a thread."""


class LogFileInfo(Shape):
    """A log."""

    name: str
    size: int
    mtime: int


class LogListInfo(Shape):
    """The logs of a process."""

    logs: list[LogFileInfo]


class ThreadInfo(Shape):
    """A thread with its stack."""

    thread_name: str = Field(serialization_alias="threadName")
    stringified_thread_info: str = Field(serialization_alias="stringifiedThreadInfo")


class ThreadDumpInfo(Shape):
    """The threads of a process."""

    thread_infos: list[ThreadInfo] = Field(serialization_alias="threadInfos")


def thread_dump_info(dump: str) -> ThreadDumpInfo:
    """Return what `dump_threads` wrote, by thread."""
    begins = list(_THREAD.finditer(dump))
    ends = [begin.start() for begin in begins[1:]] + [len(dump)]
    return ThreadDumpInfo(
        thread_infos=[
            ThreadInfo(
                thread_name=begin["name"] or f"Thread {begin['ident']}", stringified_thread_info=dump[begin.start() : end].rstrip() + "\n"
            )
            for begin, end in zip(begins, ends, strict=True)
        ]
    )
