"""Fetch the packages whose files the pages load, and say whether what is in the repository is what they have.

``make vendor`` runs it. It needs npm and a network, and changes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VENDOR = Path(__file__).resolve().parent.parent.parent / "goscheduler" / "web" / "static" / "vendor"


def differences(entry: dict[str, str], folder: Path) -> list[str]:
    """Return what of one package is not as the repository says."""
    name = f"{entry['name']}@{entry['version']}"
    packed = subprocess.run(["npm", "pack", name], cwd=folder, check=True, capture_output=True, text=True).stdout
    package = folder / packed.split()[-1]
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    with tarfile.open(package) as archive:
        member = archive.extractfile(f"package/{entry['path']}")
        content = b"" if member is None else member.read()
    wrong = [f"{name} has the integrity {integrity}"] if integrity != entry["integrity"] else []
    return wrong + ([f"{entry['file']} differs"] if content != (VENDOR / entry["file"]).read_bytes() else [])


def main() -> None:
    told = tomllib.loads((VENDOR / "VENDOR.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        wrong = [line for entry in told.values() for line in differences(entry, Path(folder))]
    print("\n".join(wrong) or f"{len(told)} packages are as they say")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
