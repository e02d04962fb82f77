"""The project's three images: built from `images/`, pushed where the cluster pulls them from.

An image's tag is a hash of what goes into it, so what has not changed is neither built nor pushed again.
"""

import configparser
import hashlib
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from cluster import base_image, buildah, configuration, debian, lifecycle, paths, prerequisites
from cluster.deploy import Images
from cluster.errors import ClusterError
from cluster.locks import exclusive
from cluster.progress import Step, say

_PARTS = ("operator", "gateway", "worker")
_IGNORED_SUFFIXES = (".pyc", ".egg-info")
_NEEDED_GIB = 12
_CONFIGURATION_IN_BUILD = "/root/.config"


def build(registry: str | None = None) -> Images:
    """Build what changed, push it, and return the references as the nodes pull them.

    Without `registry` the images go to the running cluster's own registry; with it (`host/prefix`) they go there.

    Raises:
        ClusterError: no cluster is running, or a build or push failed.
    """
    if registry is None:
        address = lifecycle.running_instance().addresses.registry
        return Images(**{part: _provide_locally(part, address) for part in _PARTS})
    return Images(**{part: _provide_elsewhere(part, registry) for part in _PARTS})


def tag(part: str) -> str:
    """Hash of the Containerfile of `part` and of every file that it copies."""
    containerfile = _containerfile(part)
    digest = hashlib.sha256(containerfile.read_bytes())
    for source in _copied(containerfile.read_text()):
        for file in _files(paths.REPOSITORY / source):
            digest.update(f"{file.relative_to(paths.REPOSITORY)}\0{file.stat().st_mode & 0o111}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _provide_locally(part: str, address: str) -> str:
    name = _name(part)
    if not _registry_has(address, name):
        with exclusive(paths.cache() / "images.lock", purpose="build images"):
            if not _registry_has(address, name):
                name = _build(part)
                with Step(f"push {name}") as step:
                    destination = f"{buildah.REGISTRY_NAME}/{name}"
                    buildah.push(f"localhost/{name}", destination, step, registry_address=address)
    return f"{configuration.REGISTRY_ALIAS}/{name}"


def _provide_elsewhere(part: str, registry: str) -> str:
    with exclusive(paths.cache() / "images.lock", purpose="build images"):
        name = _build(part)
        destination = f"{registry.rstrip('/')}/{name}"
        with Step(f"push {destination}") as step:
            buildah.push(f"localhost/{name}", destination, step)
    return destination


def _build(part: str) -> str:
    """Build the image of `part` unless it is there; return its `repository:tag`."""
    prerequisites.require_root_to_build(os.geteuid())
    debian.extend_path()
    debian.ensure(buildah.PACKAGES)
    while True:
        name = _name(part)
        if not buildah.image_exists(f"localhost/{name}"):
            _build_new(part, name)
        # A file that was edited meanwhile may or may not be in the image, which must then not bear this tag.
        if name == _name(part):
            return name
        say("files changed during the build: building again")
        buildah.remove(f"localhost/{name}")


def _build_new(part: str, name: str) -> None:
    prerequisites.require_space(paths.cache(), needed_gib=_NEEDED_GIB)
    base_image.ensure()
    with Step(f"build {name}") as step:
        buildah.build(
            containerfile=_containerfile(part),
            context=paths.REPOSITORY,
            reference=f"localhost/{name}",
            arguments=[f"BASE={base_image.REFERENCE}"],
            volumes=_volumes(),
            step=step,
        )


def _name(part: str) -> str:
    return f"diffusion-{part}:{tag(part)}"


def _volumes() -> list[str]:
    """What the build may use and the image must not contain: download caches, trust and pip's configuration."""
    cached = paths.cache() / "build-cache"
    for folder in ("apt", "user"):
        (cached / folder).mkdir(parents=True, exist_ok=True)
    return [
        f"{_write_build_configuration(cached / 'config')}:{_CONFIGURATION_IN_BUILD}:ro",
        f"{cached / 'user'}:/root/.cache",
        f"{cached / 'apt'}:/var/cache/apt/archives",
    ]


def _write_build_configuration(folder: Path) -> Path:
    """The host's pip settings, and the authorities that it trusts, in the form that a build can use."""
    (folder / "pip").mkdir(parents=True, exist_ok=True)
    asked = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    settings: dict[str, str] = {}
    for line in asked.stdout.splitlines():
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = value.strip("'\"")
    # Folders of the host are not there during the build.
    settings = {name: value for name, value in settings.items() if name not in ("find-links", "cache-dir", "cert")}
    if bundle := _trusted_authorities():
        (folder / "ca.crt").write_bytes(bundle.read_bytes())
        settings["cert"] = f"{_CONFIGURATION_IN_BUILD}/ca.crt"
    parser = configparser.RawConfigParser()
    parser["global"] = settings
    with (folder / "pip" / "pip.conf").open("w") as file:
        parser.write(file)
    return folder


def _trusted_authorities() -> Path | None:
    candidates = [os.environ.get(name) for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")]
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def _registry_has(address: str, name: str) -> bool:
    repository, _, version = name.partition(":")
    request = urllib.request.Request(
        f"http://{address}/v2/{repository}/manifests/{version}",
        method="HEAD",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
    )
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10):
            say(f"{name} is in the registry already")
            return True
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return False
        raise ClusterError(f"the registry at {address} answers {error.code} {error.reason}: see its log") from error
    except OSError as error:
        raise ClusterError(
            f"the registry at {address} does not answer ({error}): see `python -m cluster status`"
        ) from error


def _containerfile(part: str) -> Path:
    return paths.REPOSITORY / "images" / f"Containerfile.{part}"


def _copied(containerfile: str) -> list[str]:
    """Sources of the COPY instructions, in the build context."""
    sources = []
    for line in containerfile.replace("\\\n", " ").splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not any(word.startswith("--from") for word in words):
            sources += [word for word in words[1:-1] if not word.startswith("--")]
    return sources


def _files(source: Path) -> list[Path]:
    """`source`, or the files below it, without what the build context leaves out."""
    if source.is_file():
        return [source]
    found = []
    for file in sorted(source.rglob("*")):
        parts = file.relative_to(paths.REPOSITORY).parts
        generated = any(part == "__pycache__" or part.endswith(_IGNORED_SUFFIXES) for part in parts)
        if file.is_file() and not generated:
            found.append(file)
    return found
