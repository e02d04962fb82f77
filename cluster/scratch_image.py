"""Container images of one program and what it needs to run, without an image builder."""

import hashlib
import io
import json
import platform
import re
import subprocess
import tarfile
from pathlib import Path

# Go's names, which images use, for what the kernel says.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write(target: Path, *, reference: str, program: Path) -> None:
    """Write `target`, an archive that `ctr images import` takes: image `reference`, whose entry point is `program`."""
    entry_point = f"/{program.name}"
    files = {library: Path(library).read_bytes() for library in shared_libraries(program)}
    layer = _tar({**files, entry_point: program.read_bytes()}, mode=0o755)
    layer_name = f"{_sha256(layer)}.tar"
    configuration = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": [entry_point]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(layer)}"]},
        }
    ).encode()
    configuration_name = f"{_sha256(configuration)}.json"
    manifest = [{"Config": configuration_name, "RepoTags": [reference], "Layers": [layer_name]}]
    members = {
        layer_name: layer,
        configuration_name: configuration,
        "manifest.json": json.dumps(manifest).encode(),
    }
    target.write_bytes(_tar(members, mode=0o644))


def shared_libraries(program: Path) -> list[str]:
    """Paths of the libraries that `program` loads; none for a static one."""
    answer = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", answer.stdout)


def _tar(members: dict[str, bytes], *, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size = len(content)
            entry.mode = mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
