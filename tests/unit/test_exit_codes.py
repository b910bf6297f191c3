"""Which exit code an error has: whose fault it is, as docs/operating.md says it."""

import errno
import sys

import pytest

from eventflink.blob.open_storage import open_storage
from eventflink.cli.exit_codes import explain
from eventflink.cli.failures import ExitCode


@pytest.mark.parametrize("location", ["memory://blobs", "nothing://blobs", "simplecache::s3://bucket/blobs"])
def test_a_storage_that_no_master_can_share_is_a_fault_of_the_configuration(location: str) -> None:
    with pytest.raises(Exception, match=location) as caught:
        open_storage(location)
    assert explain(caught.value)[0] is ExitCode.USAGE


def test_a_package_that_is_not_installed_is_what_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smbprotocol", None)
    monkeypatch.setitem(sys.modules, "smbclient", None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.smb", raising=False)
    with pytest.raises(Exception, match="smb") as caught:
        open_storage("smb://host/share")
    assert explain(caught.value)[0] is ExitCode.ENVIRONMENT


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES])
def test_a_disk_that_takes_nothing_is_what_the_machine_lacks_and_is_named(number: int) -> None:
    code, message = explain(OSError(number, "it does not work", "/data/logs"))
    assert (code, message) == (ExitCode.ENVIRONMENT, "/data/logs: it does not work")
