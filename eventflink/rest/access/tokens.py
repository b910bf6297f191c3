"""Whose token a token is: the file of tokens, read again when it changes, or a provider of the user's.

The file has a line for each: name, role, SHA-256 of the token in hexadecimal digits. So who reads it learns no token; who may write it
decides who is who, and therefore nobody but its owner may. A file that cannot be used lets nobody in: what it said before does not count.
"""

import asyncio
import hashlib
import hmac
import importlib
import os
import re
import secrets
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from eventflink.model.configuration import Configuration
from eventflink.processes.file_lock import FileLock
from eventflink.rest.access.identity import AccessRole, Identity, TokenProvider

TOKEN_PATTERN: Final = re.compile(r"[\x21-\x7e]{1,4096}")
MAX_FILE_BYTES: Final = 1024 * 1024
PROVIDER_TIMEOUT_S: Final = 10.0
PROVIDER_THREADS: Final = 8
PROVIDER_FRESH_S: Final = 5.0
"""For how long an answer of a provider holds: so long may somebody whom it has forgotten go on."""

_MAX_FRESH: Final = 1_000
_MAX_ASKING: Final = 64
_LOCK_TIMEOUT_S: Final = 10.0
_TICK_S: Final = 2.0
_TOKEN_PREFIX: Final = "eft_"  # noqa: S105 - by which a token is recognized where it should not be
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FIELDS: Final = 3


class TokensUnusable(Exception):
    """Nobody can be let in; the message says why, to who runs the process."""


class Tokens(Protocol):
    """Where tokens are looked up."""

    async def identity_of(self, token: str) -> Identity | None:
        """Return who has this token now; None: nobody.

        Raises:
            TokensUnusable: it cannot be told.

        """


def digest_of(token: str) -> str:
    """Return what the file has of a token."""
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def read_tokens(path: Path) -> dict[str, Identity]:
    """Return the identities by the digests of their tokens.

    Raises:
        TokensUnusable: the file is not there, others may write or read it, or a line is wrong.

    """
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise TokensUnusable(f"rest.tokens-file '{path}' is longer than {MAX_FILE_BYTES} bytes")
        lines = content.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TokensUnusable(f"rest.tokens-file '{path}' cannot be read: {error}") from error
    identities: dict[str, Identity] = {}
    for number, line in enumerate(lines, 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        try:
            if len(fields) != _FIELDS or not _DIGEST.fullmatch(fields[2].lower()):
                raise ValueError("it is not: name, role, SHA-256 of the token in 64 hexadecimal digits")  # noqa: TRY301 - told with its line
            identity = Identity(fields[0], AccessRole(fields[1]))
            if fields[2].lower() in identities or any(each.name == identity.name for each in identities.values()):
                raise ValueError("the name or the token stands there twice")  # noqa: TRY301 - told with its line
        except ValueError as error:
            raise TokensUnusable(f"rest.tokens-file '{path}', line {number}: {error}") from error
        identities[fields[2].lower()] = identity
    return identities


def _check_owner(path: Path, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise TokensUnusable(f"rest.tokens-file '{path}' is not a regular file")
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise TokensUnusable(f"rest.tokens-file '{path}' may be used by others (mode {mode:04o}): chmod 600 '{path}'")
    if status.st_uid not in (0, os.geteuid()):
        raise TokensUnusable(f"rest.tokens-file '{path}' belongs to another user (uid {status.st_uid}), who could add tokens: chown it")


class TokenFile:
    """The file of tokens."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            TokensUnusable: it cannot be used.

        """
        self._path = path
        self._read_as: tuple[int, ...] = ()
        self._identities: dict[str, Identity] = {}
        self._look()

    def _look(self) -> None:
        """Read it again if it is another one, or was changed; also by rights alone."""
        try:
            status = self._path.stat()
        except OSError as error:
            self._read_as = ()
            raise TokensUnusable(f"rest.tokens-file '{self._path}' cannot be read: {error}") from error
        present = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if present != self._read_as:
            self._read_as = ()
            self._identities = read_tokens(self._path)
            # What has just been changed may be changed again within one tick of the file system's clock.
            self._read_as = present if abs(time.time() - status.st_ctime) > _TICK_S else ()

    async def identity_of(self, token: str) -> Identity | None:
        """Return who has this token; every entry is compared, each in constant time."""
        self._look()
        digest = digest_of(token)
        found = None
        for each, identity in self._identities.items():
            if hmac.compare_digest(each, digest):
                found = identity
        return found


class ProvidedTokens:
    """What a provider says; it is asked in threads of its own, so that a slow one holds up nobody who does not wait for it."""

    def __init__(self, provider: TokenProvider) -> None:
        """Take a provider."""
        self._provider = provider
        self._threads = ThreadPoolExecutor(PROVIDER_THREADS, "tokens")
        self._asking = 0
        self._fresh: dict[str, tuple[Identity, float]] = {}

    async def identity_of(self, token: str) -> Identity | None:
        """Ask the provider, unless it has just said whose token this is."""
        digest, now = digest_of(token), time.monotonic()
        known, until = self._fresh.pop(digest, (None, 0.0))
        if known is None or until <= now:
            known, until = await self._ask(token), now + PROVIDER_FRESH_S
        if known is not None:
            self._fresh[digest] = known, until
            if len(self._fresh) > _MAX_FRESH:
                del self._fresh[next(iter(self._fresh))]
        return known

    async def _ask(self, token: str) -> Identity | None:
        if self._asking >= _MAX_ASKING:
            raise TokensUnusable(f"rest.token-provider: {self._asking} questions wait for it already")
        self._asking += 1
        answer = asyncio.get_running_loop().run_in_executor(self._threads, self._provider.identity_of, token)
        answer.add_done_callback(self._answered)
        try:
            found = await asyncio.wait_for(asyncio.shield(answer), PROVIDER_TIMEOUT_S)
        except TimeoutError as error:
            raise TokensUnusable(f"rest.token-provider gave no answer within {PROVIDER_TIMEOUT_S:g} s") from error
        except Exception as error:  # noqa: BLE001 - the user's provider may raise anything, and may say the token
            raise TokensUnusable(f"rest.token-provider raised {type(error).__name__}") from None
        if found is None or isinstance(found, Identity):
            return found
        raise TokensUnusable(f"rest.token-provider returned a {type(found).__name__} for an Identity")

    def _answered(self, answer: "asyncio.Future[Identity | None]") -> None:
        self._asking -= 1
        if not answer.cancelled():
            answer.exception()  # Whoever waited may be gone.


def configured_tokens(configuration: Configuration) -> Tokens | None:
    """Return where this configuration says that tokens are looked up; None: nowhere, and nobody needs one.

    Raises:
        TokensUnusable: the file cannot be used, or there is no such provider.

    """
    if configuration.rest_tokens_file is not None:
        return TokenFile(configuration.rest_tokens_file.expanduser())
    if not configuration.rest_token_provider:
        return None
    name = configuration.rest_token_provider
    module, _, factory = name.partition(":")
    try:
        provider = getattr(importlib.import_module(module), factory)(configuration)
    except Exception as error:  # the user's module may raise anything
        raise TokensUnusable(f"rest.token-provider: '{name}' made no provider: {error!r}") from error
    if not hasattr(provider, "identity_of"):
        raise TokensUnusable(f"rest.token-provider: what '{name}' made has no identity_of")
    return ProvidedTokens(provider)


def mint_token(path: Path, name: str, role: AccessRole, *, replace: bool = False) -> str:
    """Write a new token into the file, which is made if it is missing; return the token, which stands nowhere else.

    Raises:
        ValueError: there is such a name already, and it is not to be replaced; or it is none.
        TokensUnusable: the file is there and cannot be used, or cannot be written.
        LockBusy: somebody else writes it.

    """
    Identity(name, role)
    token = _TOKEN_PREFIX + secrets.token_urlsafe(32)
    path = path.resolve()
    try:
        with FileLock(path.with_name(f".{path.name}.lock"), _LOCK_TIMEOUT_S):
            lines: list[str] = []
            if path.exists():
                read_tokens(path)
                lines = path.read_text("utf-8").splitlines()
            kept = [line for line in lines if line.partition("#")[0].split()[:1] != [name]]
            if len(kept) < len(lines) and not replace:
                raise ValueError(f"'{name}' has a token already; --replace gives a new one, and makes the old one void")
            _write(path, [*kept, f"{name} {role} {digest_of(token)}"])
    except OSError as error:
        raise TokensUnusable(f"rest.tokens-file '{path}' cannot be written: {error}") from error
    return token


def _write(path: Path, lines: list[str]) -> None:
    """Put the lines in the place of the file at once, as its owner's."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if path.exists():
            status = path.stat()
            os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
