"""Where Triton is: in its own image, or in the `nvidia-pytriton` wheel on a developer's machine."""

import ctypes
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diffusion_worker.triton.errors import LaunchError

IMAGE_HOME = Path("/opt/tritonserver")
_STUB = "triton_python_backend_stub"


@dataclass(frozen=True)
class Triton:
    """Files of one installation."""

    server: Path
    python_backend: tuple[Path, ...]  # library, Python module and stub
    library_folders: tuple[Path, ...]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with what server and stub need to find their libraries and this Python's packages."""
        # The stub embeds libpython, and takes its site-packages from the first python3 on PATH.
        libraries = [
            *map(str, self.library_folders),
            sysconfig.get_config_var("LIBDIR"),
            base.get("LD_LIBRARY_PATH", ""),
        ]
        paths = [str(Path(sys.executable).parent), base.get("PATH", "/usr/bin:/bin")]
        environment = {name: value for name, value in base.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return environment | {
            "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
            "PATH": ":".join(paths),
        }


def find_triton(home: Path = IMAGE_HOME) -> Triton:
    """The installation in `home`, else the one of the wheel; LaunchError when there is none."""
    if (home / "bin" / "tritonserver").is_file():
        return Triton(
            server=home / "bin" / "tritonserver",
            python_backend=tuple(sorted((home / "backends" / "python").iterdir())),
            library_folders=(home / "lib",),
        )
    return _in_the_wheel(home)


def _in_the_wheel(home: Path) -> Triton:
    spec = importlib.util.find_spec("pytriton")  # found, not imported: importing it would start helpers of its own
    if spec is None or spec.origin is None:
        raise LaunchError(
            f"tritonserver is neither in {home} nor in this Python's packages; use the worker image, "
            "or: pip install nvidia-pytriton==0.7.0"
        )
    package = Path(spec.origin).parent
    wheel = package / "tritonserver"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = wheel / "python_backend_stubs" / version / _STUB
    if not os.access(stub, os.X_OK):
        raise LaunchError(f"{stub} is missing or not executable: this nvidia-pytriton has no stub for Python {version}")
    _require_libpython(f"libpython{version}.so.1.0", package=f"libpython{version}")
    library_and_module = (path for path in (wheel / "backends" / "python").iterdir() if path.is_file())
    return Triton(
        server=wheel / "bin" / "tritonserver",
        python_backend=(*sorted(library_and_module), stub),
        library_folders=(package.parent / "nvidia_pytriton.libs",),
    )


def _require_libpython(library: str, *, package: str) -> None:
    """Debian's Python does without its library; without it the stub ends before it can say why."""
    if (Path(sysconfig.get_config_var("LIBDIR")) / library).exists():
        return
    try:
        ctypes.CDLL(library)
    except OSError as error:
        raise LaunchError(
            f"{library} is missing, which Triton's python stub loads: apt-get install {package}"
        ) from error
