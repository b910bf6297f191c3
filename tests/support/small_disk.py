"""A file system of 64 KiB for a process of its own, so that a disk is really full: where the kernel lets us mount one."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_MOUNT: Final = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, MS_REMOUNT, MS_RDONLY = 0x20000, 0x10000000, 32, 1
def call(name, *arguments):
    if getattr(libc, name)(*arguments):
        print("NO", name, os.strerror(ctypes.get_errno()))
        sys.exit(0)
uid, gid = os.getuid(), os.getgid()
call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    open(f"/proc/self/{name}", "w").write(text)
place = sys.argv[1].encode()
call("mount", b"none", place, b"tmpfs", 0, b"size=64k")
"""


def run_on_small_disk(place: Path, program: str) -> list[str]:
    """Return the lines that a program prints to whom `place`, its first argument, is a file system of 64 KiB of its own.

    It may `call("mount", ...)` again. The test is skipped where nobody may mount.
    """
    ended = subprocess.run([sys.executable, "-c", _MOUNT + program, str(place)], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    if ended.stdout.startswith("NO "):
        pytest.skip(f"this machine lets nobody mount a small file system: {ended.stdout.strip()}")
    return ended.stdout.splitlines()
