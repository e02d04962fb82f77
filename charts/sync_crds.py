"""Copy crds/ into the chart, which has to carry its own: Helm packages nothing from outside the chart's folder.

`python charts/sync_crds.py` copies, `--check` exits with 1 and names what differs.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "crds"
COPY = ROOT / "charts" / "diffusion-operator" / "files" / "crds"


def differences(source: Path = SOURCE, copy: Path = COPY) -> list[str]:
    """What keeps the copy from being the source, one sentence per file."""
    wanted = {path.name: path.read_bytes() for path in source.glob("*.yaml")}
    present = {path.name: path.read_bytes() for path in copy.glob("*.yaml")}
    return [
        *(f"{copy / name} is missing" for name in sorted(wanted.keys() - present.keys())),
        *(f"{copy / name} is not in {source}" for name in sorted(present.keys() - wanted.keys())),
        *(
            f"{copy / name} differs from {source / name}"
            for name in sorted(wanted.keys() & present.keys())
            if wanted[name] != present[name]
        ),
    ]


def sync(source: Path = SOURCE, copy: Path = COPY) -> None:
    """Make the copy equal to the source: files are added, replaced and removed."""
    copy.mkdir(parents=True, exist_ok=True)
    for stale in copy.glob("*.yaml"):
        if not (source / stale.name).exists():
            stale.unlink()
    for path in source.glob("*.yaml"):
        (copy / path.name).write_bytes(path.read_bytes())


def main() -> int:
    """Run from the command line; the exit status is 1 when --check finds a difference."""
    parser = argparse.ArgumentParser(description="Copy crds/ into the chart.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 when the copy is out of date")
    if not parser.parse_args().check:
        sync()
        return 0
    found = differences()
    for line in found:
        sys.stderr.write(f"{line}\n")
    if found:
        sys.stderr.write("run: make generate\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
