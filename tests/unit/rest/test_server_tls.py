"""A server outlives its certificate: a new one is spoken with as soon as it is there with its key, and nothing else ever is."""

import itertools
import shutil
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from eventflink.blob.tls import TlsFiles
from eventflink.rest.access.server_tls import LOOK_S, ServerTls
from tests.support.recorded_cluster import recorded
from tests.support.rest_server import served
from tests.support.tls_files import Certificates

UNUSABLE = "RestCertificateUnusable"


def test_a_new_certificate_is_spoken_with_once_its_key_is_there_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, after = Certificates(tmp_path / "before"), Certificates(tmp_path / "after")
    files = TlsFiles(tmp_path / "rest.pem", tmp_path / "rest.key")
    assert files.certificate is not None
    assert files.key is not None

    def install(source: Path | None, target: Path) -> None:
        assert source is not None
        shutil.copy(source, target.with_suffix(".new"))
        target.with_suffix(".new").replace(target)

    install(before.server.certificate, files.certificate)
    install(before.server.key, files.key)
    every_look = itertools.count(step=LOOK_S)
    with served(recorded().cluster, "0", ServerTls(files, lambda: next(every_look))) as serving:

        def trusts(certificates: Certificates) -> bool:
            """Tell whether somebody who trusts these alone gets an answer."""
            context = ssl.create_default_context(cafile=str(certificates.ca))
            try:
                with urllib.request.urlopen(f"{serving.url}/config", timeout=120, context=context) as answer:
                    return int(answer.status) == 200
            except urllib.error.URLError as error:
                if isinstance(error.reason, ssl.SSLCertVerificationError):
                    return False
                raise

        assert (trusts(before), trusts(after)) == (True, False)
        install(after.server.certificate, files.certificate)
        assert (trusts(before), trusts(after)) == (True, False), "a certificate without its key is none"
        install(after.server.key, files.key)
        assert (trusts(before), trusts(after)) == (False, True)
        files.certificate.write_bytes(b"nonsense")
        assert trusts(after)
        files.certificate.unlink()
        assert trusts(after)
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith(UNUSABLE)]
    assert len(told) == 3, "each reason once"


def test_the_files_are_looked_at_once_a_second_at_the_most(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "files")
    now = 0.0
    tls = ServerTls(certificates.server, lambda: now)
    first = tls.context()
    assert certificates.server.certificate is not None
    certificates.server.certificate.touch()
    assert tls.context() is first
    now += LOOK_S
    assert tls.context() is not first
