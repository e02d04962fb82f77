"""A machine that lacks something of Triton's is told what to install."""

import sys
import sysconfig
from pathlib import Path

import pytest
from diffusion_worker.triton import installation
from diffusion_worker.triton.errors import LaunchError
from diffusion_worker.triton.installation import find_triton


def test_a_python_without_its_library_is_told_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there(library: str) -> None:
        raise OSError(f"{library}: cannot open shared object file")

    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: str(tmp_path))
    monkeypatch.setattr(installation.ctypes, "CDLL", not_there)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(
        LaunchError, match=rf"libpython{version}\.so\.1\.0 is missing.*apt-get install libpython{version}"
    ):
        find_triton(home=tmp_path)
