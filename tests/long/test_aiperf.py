"""NVIDIA's load generator against the gateway. It brings 140 packages and needs a newer numpy than we do, so it has a venv of its own."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster import paths
from cluster.locks import exclusive
from tests.gateway.fake_triton import says
from tests.gateway.stack import started

AIPERF = "0.13.0"
TOKENIZER = Path(__file__).resolve().parents[2] / "examples" / "checkpoints" / "storyteller"
REQUESTS = 20


def program() -> Path:
    """aiperf, in the cache that all checkouts share; installed first where it is missing. Fails with what to do."""
    folder = paths.cache() / f"aiperf-{AIPERF}"
    installed = folder / "installed"
    with exclusive(paths.cache() / "aiperf.lock", purpose="install aiperf"):
        if not installed.exists():
            for command in (
                ["venv", "--quiet", "--clear", f"--python={sys.executable}", str(folder)],
                ["pip", "install", "--quiet", f"--python={folder}/bin/python", f"aiperf=={AIPERF}"],
            ):
                done = subprocess.run(
                    [sys.executable, "-m", "uv", *command], capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, (
                    f"uv cannot install aiperf=={AIPERF}, with which the gateway is tested: make PyPI reachable, or run "
                    f"`make setup` if uv is missing, and run the test again. It said: {done.stderr.strip()}"
                )
            installed.touch()
    return folder / "bin" / "aiperf"


async def profile(url: str, folder: Path, *flags: str) -> dict[str, Any]:
    """Run it and return its report."""
    arguments = [
        "--model-names=story",
        f"--url={url}",
        f"--tokenizer={TOKENIZER}",
        f"--artifact-dir={folder}",
        "--ui=none",
    ]
    load = [
        f"--request-count={REQUESTS}",
        "--concurrency=4",
        "--synthetic-input-tokens-mean=30",
        "--output-tokens-mean=40",
    ]
    process = await asyncio.create_subprocess_exec(
        *(str(await asyncio.to_thread(program)), "profile", *arguments, *load, *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    report: dict[str, Any] = json.loads((folder / "profile_export_aiperf.json").read_text())
    return report


@pytest.mark.parametrize(
    "flags",
    [
        ("--endpoint-type=chat", "--streaming"),
        ("--endpoint-type=chat",),
        ("--endpoint-type=completions", "--streaming"),
    ],
    ids=["streamed chats", "chats", "streamed completions"],
)
async def test_it_measures_every_request_and_believes_our_usage(tmp_path: Path, flags: tuple[str, ...]) -> None:
    async with started() as stack:
        arm = await stack.arm("stable", says("once ", "upon ", "a time"), percent=100)
        await stack.route(arm)
        report = await profile(stack.url, tmp_path, *flags, "--use-server-token-count")
        assert len(arm.pods[0].requests) == REQUESTS
    assert report["request_count"]["avg"] == REQUESTS
    assert report["error_summary"] == []
    assert report["output_sequence_length"]["avg"] == 9  # three blocks of three tokens
    if "--streaming" in flags:
        assert report["time_to_first_token"]["avg"] > 0
