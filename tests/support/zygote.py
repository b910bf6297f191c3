"""Starts eventflink's processes for tests by fork: what each of them would import is imported once, by one process that then waits.

`Popen` and `run` are as those of `subprocess`. A process that runs a module of ours is cloned from the zygote of this pytest process, and
its parent is the pytest process. Whatever else is started, and whatever a fork cannot be given, is executed as ever: a function before the
exec, further descriptors, other values of the variables that are read as modules are imported. The rule: who starts a process this way sees
the same as by an exec. Not the same are what /proc says of its environment, which is the zygote's, and the seed of its hashes.

The zygote has one thread, one socket and no other file: no lock is held and no connection is open when it is cloned.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).parents[2]

_HOST: Final = "benchmarks.simulated_task_executors"
MODULES: Final = ("eventflink.cli", _HOST)
"""What is forked; of these alone the zygote has imported what they need."""

_PRELOADED: Final = (
    "eventflink.cli.exit_codes",
    *(f"eventflink.cli.commands.{name}" for name in ("cluster", "list", "master", "rest", "status", "taskexecutor")),
    "eventflink.entrypoint.master_process",
    _HOST,
)
_WITH_THREADS: Final = ("duckdb", "grpc", "numpy", "pandas", "pyarrow", "pyspark")
"""Libraries that start threads, or are not for a fork, when they are imported."""

_READ_AT_START: Final = (
    *("PYTHON", "LD_", "LC_", "LANG", "HOME", "MALLOC_", "SSL", "OPENSSL_"),
    *("EVENTFLINK_TRACE", "FAUST_", "FSSPEC_", "PYDANTIC_"),
)
"""The variables that begin so are read by the interpreter, or as modules are imported."""

STARTED: Final = "eventflink.test.started"
"""The audit event of a process that is forked, as `subprocess.Popen` is of one that is executed."""

_REQUEST_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 120.0
_ROOM: Final = 8192
"""Bytes that the zygote's command line takes, to which each process writes its own."""

_CLONE_PARENT: Final = 0x8000
_PR_GET_TID_ADDRESS: Final = 40
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
"""The numbers of the system call `clone`."""


# -- in the pytest process ----------------------------------------------------------------------------------------


class Popen(subprocess.Popen[Any]):
    """As `subprocess.Popen`, but that a process of ours is forked; `preexec_fn` and further descriptors have it executed."""

    def _execute_child(  # Of the standard library, in all versions since 3.11: it makes the process when the pipes are there.
        self,
        args: Sequence[str],
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,  # noqa: FBT001 - as it is called
        pass_fds: Sequence[int],
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        *more: Any,
    ) -> None:
        *files, restore_signals, gid, gids, uid, umask, start_new_session, process_group = more
        environment = dict(os.environ if env is None else env)
        usual = close_fds and restore_signals and not shell and not (executable or preexec_fn or pass_fds)
        as_we_are = (gid, gids, uid, umask) == (None, None, None, -1)
        ours = usual and as_we_are and _is_ours(args) and (cwd is None or Path(cwd).is_dir())
        if not (ours and (zygote := _zygote()).begins_as_one_with(environment)):
            arguments = (args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell, *more)
            super()._execute_child(*arguments)  # type: ignore[misc]  # the stubs leave it out
            return
        request = {
            "module": args[2],
            "arguments": list(args[3:]),
            "directory": os.fspath(cwd or Path.cwd()),
            "environment": environment,
            "start_new_session": bool(start_new_session),
            "process_group": process_group if process_group is not None else -1,
        }
        p2cread, _, _, c2pwrite, _, errwrite = files
        standard = [file if file != -1 else number for number, file in enumerate((p2cread, c2pwrite, errwrite))]
        sys.audit(STARTED)
        self.pid = zygote.fork(request, standard)
        self._child_created = True
        self._close_pipe_fds(*files)  # type: ignore[attr-defined]  # the stubs leave it out


def run(
    command: Sequence[str],
    *,
    input: str | bytes | None = None,  # noqa: A002 - as it is called
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`, by `Popen`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


def _is_ours(command: Sequence[Any]) -> bool:
    """Tell whether a command runs one of our modules in this interpreter, on a system whose `clone` is known."""
    here = sys.platform == "linux" and os.uname().machine in _CLONE
    return here and not isinstance(command, str | bytes) and list(command[:2]) == [sys.executable, "-m"] and command[2] in MODULES


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment is read before a process can be told another one; PYTHONPATH it can be told."""
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START) and name != "PYTHONPATH"}


class _Zygote:
    """The pytest process's end: it has one zygote, which ends when this process does."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._read_at_start = _read_at_start(os.environ)
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_TIMEOUT_S)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno()), "-" * _ROOM]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        atexit.register(self._close)

    def begins_as_one_with(self, environment: Mapping[str, str]) -> bool:
        """Tell whether an interpreter that is started with this environment begins as the zygote did."""
        return _read_at_start(environment) == self._read_at_start

    def fork(self, request: dict[str, Any], standard: Sequence[int]) -> int:
        """Have a process made, and return its number."""
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], standard)
            answer = self._control.recv(64)
        assert answer, "the zygote has ended; what it said is on standard error"
        return int(answer)

    def _close(self) -> None:
        if os.getpid() == self.owner:
            self._control.close()
            self._process.wait(_TIMEOUT_S)


_known: list[_Zygote] = []
_making = threading.Lock()


def _zygote() -> _Zygote:
    """Return the zygote of this process; a pytest process that was forked has one of its own."""
    with _making:
        if not _known or _known[0].owner != os.getpid():
            _known[:] = [_Zygote()]
        return _known[0]


# -- in the zygote ------------------------------------------------------------------------------------------------


def _preload() -> None:
    """Import what our processes need, and nothing that cannot be forked."""
    gc.disable()  # As `eventflink.cli.main` does, and before it: nothing that an import makes is garbage.
    before = dict(os.environ)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for name in _PRELOADED:
        importlib.import_module(name)
    del sys.modules[_HOST]  # It is run by its name: what it imports is there.
    gc.freeze()
    os.environ.clear()
    os.environ.update(before)


def _check_forkable(control: socket.socket) -> None:
    """Refuse to be forked with what another process may not have a copy of."""
    own = (0, 1, 2, control.fileno())
    files = [path.readlink() for path in Path("/proc/self/fd").iterdir() if int(path.name) not in own and path.exists()]
    assert not files, f"the zygote has open files: {files}"
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "the zygote has threads"
    loaded = [name for name in _WITH_THREADS if name in sys.modules]
    assert not loaded, f"the zygote has imported {loaded}, which are not to be forked"


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Clone a process for each request until the pytest process has ended; return, in each clone, what it is to be and its files."""
    libc = ctypes.PyDLL(None)  # It keeps the lock of the interpreter over the call, as a fork has to.
    libc.syscall.restype = ctypes.c_long
    thread_id = ctypes.c_void_p()
    libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(thread_id), 0, 0, 0)
    number, flags = _CLONE[os.uname().machine], _CLONE_PARENT | signal.SIGCHLD
    while True:
        payload, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 3)
        if not payload:
            sys.exit(0)
        ctypes.pythonapi.PyOS_BeforeFork()
        process_id = libc.syscall(*(ctypes.c_long(each) for each in (number, flags, 0, 0, 0, 0)))
        if process_id == 0:
            if thread_id.value:  # The C library writes down who the main thread is, where it forks by itself.
                ctypes.c_int.from_address(thread_id.value).value = os.getpid()
            ctypes.pythonapi.PyOS_AfterFork_Child()
            return json.loads(payload), descriptors
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(process_id).encode())


def _become(request: dict[str, Any], descriptors: Sequence[int], imported_from: Sequence[str], interrupted: Any) -> NoReturn:
    """Be, in a clone, what an interpreter would be that was started so."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if request["start_new_session"]:
        os.setsid()
    if request["process_group"] >= 0:
        os.setpgid(0, request["process_group"])
    signal.signal(signal.SIGINT, interrupted)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    directory = str(Path.cwd())
    sys.path[:] = [directory, *_python_path(), *imported_from]
    sys.argv[:] = ["-m", *request["arguments"]]
    sys.orig_argv[:] = [sys.executable, "-m", request["module"], *request["arguments"]]
    _show_command_line(sys.orig_argv)
    sys.stdin = sys.__stdin__ = _reopened(sys.stdin, "rb", line_buffering=False)  # type: ignore[misc]  # it is final for others
    sys.stdout = sys.__stdout__ = _reopened(sys.stdout, "wb", line_buffering=os.isatty(1))  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _reopened(sys.stderr, "wb", line_buffering=True)  # type: ignore[misc]
    gc.enable()
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    sys.exit(0)


def _reopened(stream: Any, mode: str, *, line_buffering: bool) -> io.TextIOWrapper:
    """Return a standard stream as an interpreter makes it that is started with what is now behind its descriptor."""
    unbuffered = stream.write_through  # PYTHONUNBUFFERED
    binary: Any = open(stream.fileno(), mode, 0 if unbuffered else -1, closefd=False)  # noqa: SIM115 - it is for good
    return io.TextIOWrapper(
        binary, stream.encoding, stream.errors, "\n", line_buffering=line_buffering and not unbuffered, write_through=unbuffered
    )


def _python_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def _show_command_line(command: Sequence[str]) -> None:
    """Have `ps` show the command, in the place of the zygote's own: in one string, as it shows the title of a process."""
    begin, end = (int(field) for field in Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[45:47])
    title = os.fsencode(" ".join(command))[: end - begin - 2]
    ctypes.memmove(begin, title + b"\0" * (end - begin - len(title) - 1) + b".", end - begin)


def main() -> None:
    """Be the zygote, and in each clone what was asked for."""
    interrupted = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A Ctrl-C is for the pytest process and for those that it started.
    imported_from = sys.path[1 + len(_python_path()) :]
    with socket.socket(fileno=int(sys.argv[1])) as control, contextlib.suppress(ConnectionResetError):
        _preload()
        _check_forkable(control)
        request, descriptors = _serve(control)
        control.detach()
    _become(request, descriptors, imported_from, interrupted)


if __name__ == "__main__":
    main()
