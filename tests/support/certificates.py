"""Certificates for tests, made by the command openssl: an authority, a server, clients."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.certificate = folder / "ca.pem"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", "/CN=tests", "-keyout", str(folder / "ca.key"), "-out", str(self.certificate),
        )  # fmt: skip

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the certificate and the key of somebody by a common name, who may be at localhost."""
        file = name or "nobody"
        key, request, certificate = (self._folder / f"{file}.{end}" for end in ("key", "csr", "pem"))
        extensions = self._folder / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n", encoding="utf-8")
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}" if name else "/O=nobody", "-keyout", str(key), "-out", str(request),
        )  # fmt: skip
        _openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._folder / "ca.key"),
            "-CAcreateserial", "-days", "30", "-extfile", str(extensions), "-out", str(certificate),
        )  # fmt: skip
        return certificate, key


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
