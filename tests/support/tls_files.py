"""A CA that lives as long as a test, and certificates that it signed, as files."""

from pathlib import Path

import trustme

from eventflink.blob.tls import TlsFiles


class Certificates:
    """A CA, a certificate for 127.0.0.1, one of a client, and one for another host."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        authority = trustme.CA()
        self.ca = directory / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        self.server = self._write("server", authority.issue_cert("127.0.0.1", "localhost"))
        self.client = self._write("client", authority.issue_cert("client.example"))
        self.elsewhere = self._write("elsewhere", authority.issue_cert("elsewhere.example"))

    def _write(self, name: str, issued: trustme.LeafCert) -> TlsFiles:
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        return TlsFiles(certificate, key, self.ca)
