"""The image that ours start from: a minimal Debian made with debootstrap, as no image registry need be reachable."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from cluster import buildah, paths
from cluster.progress import Step

REFERENCE = "localhost/debian:12"
_SUITE = "bookworm"
_CONTAINERFILE = 'FROM scratch\nADD root.tar /\nENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nCMD ["bash"]\n'


def ensure() -> None:
    """Make the image unless an earlier build left it in the storage."""
    if buildah.image_exists(REFERENCE):
        return
    with Step("make the Debian base image (once per machine; about a minute)") as step:
        buildah.storage().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=paths.cache(), prefix="debootstrap-") as scratch:
            folder = Path(scratch)
            _make_root(folder / "root", step)
            pack = ["tar", "--create", "--numeric-owner", "--file", str(folder / "root.tar")]
            subprocess.run([*pack, "--directory", str(folder / "root"), "."], check=True)
            shutil.rmtree(folder / "root")
            containerfile = folder / "Containerfile"
            containerfile.write_text(_CONTAINERFILE)
            buildah.build(containerfile=containerfile, context=folder, reference=REFERENCE, step=step)


def _make_root(root: Path, step: Step) -> None:
    packages = paths.cache() / "build-cache" / "apt"
    packages.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--cache-dir={packages}", _SUITE, str(root)]
    buildah.run(command, step)
    for pattern in ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*_*", "var/log/*.log", "var/log/apt/*"):
        for file in root.glob(pattern):
            file.unlink()
    # Debian's mirrors for updates and security fixes are not part of what debootstrap writes.
    sources = root / "etc" / "apt" / "sources.list"
    mirror = sources.read_text().split()[1]
    sources.write_text(
        f"deb {mirror} {_SUITE} main\ndeb {mirror} {_SUITE}-updates main\n"
        f"deb {mirror}-security {_SUITE}-security main\n"
    )
