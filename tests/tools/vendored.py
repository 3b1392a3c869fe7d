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

ROOT = Path(__file__).resolve().parent.parent.parent
#: What the pages load, and what the tests of the pages load.
VENDORS = (ROOT / "goscheduler" / "web" / "static" / "vendor", ROOT / "tests" / "vendor")


def differences(vendor: Path, entry: dict[str, str], folder: Path) -> list[str]:
    """Return what of one package is not as the repository says."""
    name = f"{entry['name']}@{entry['version']}"
    packed = subprocess.run(["npm", "pack", name], cwd=folder, check=True, capture_output=True, text=True).stdout
    package = folder / packed.split()[-1]
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    with tarfile.open(package) as archive:
        member = archive.extractfile(f"package/{entry['path']}")
        content = b"" if member is None else member.read()
    wrong = [f"{name} has the integrity {integrity}"] if integrity != entry["integrity"] else []
    return wrong + ([f"{entry['file']} differs"] if content != (vendor / entry["file"]).read_bytes() else [])


def main() -> None:
    told = [
        (vendor, entry)
        for vendor in VENDORS
        for entry in tomllib.loads((vendor / "VENDOR.toml").read_text(encoding="utf-8")).values()
    ]
    with tempfile.TemporaryDirectory() as folder:
        wrong = [line for vendor, entry in told for line in differences(vendor, entry, Path(folder))]
    print("\n".join(wrong) or f"{len(told)} packages are as they say")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
