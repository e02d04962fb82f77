"""Clients that ask for too much, wait for nothing or hardly read. Others are answered meanwhile."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2

from cluster import deploy, lifecycle
from tests.e2e import gateways
from tests.e2e.asking import ask

CONNECTIONS = 10_000
LIMIT = 4096
"""Of connections, in each gateway: the default."""


def resident_bytes(cluster):
    return gateways.counts(cluster).sum("process_resident_memory_bytes")


def restarts(cluster):
    found = cluster.pods(gateways.GATEWAY, namespace=gateways.SYSTEM)
    return sum(status["restartCount"] for pod in found for status in pod["status"]["containerStatuses"])


def test_a_prompt_of_a_megabyte_is_refused_by_the_worker_and_three_by_the_gateway(cluster, fragile):
    before = gateways.counts(cluster)

    long = ask(cluster.url, model="fragile", prompt="once upon a time " * (2**20 // 17), stream=False)
    longer = httpx2.post(
        f"{cluster.url}/v1/completions",
        json={"model": "fragile", "prompt": "x" * (3 * 2**20)},
        timeout=60,
        trust_env=False,
    )

    assert (long.status, long.error["code"], long.error["param"]) == (400, "context_length_exceeded", "prompt")
    assert (longer.status_code, longer.json()["error"]["code"]) == (413, "request_too_large")
    assert ask(cluster.url, model="fragile").is_complete
    counted = gateways.counts(cluster).since(before)
    assert counted.sum("diffusion_gateway_requests_total", code="400", model="fragile") == 1
    assert counted.sum("diffusion_gateway_requests_total", code="413") == 1
    assert counted.sum("diffusion_gateway_arm_failures_total", model="fragile") == 0, "the client is at fault, no arm"


def test_ten_thousand_idle_connections_keep_nobody_else_from_being_answered(cluster, fragile, eventually):
    before, restarted = gateways.counts(cluster), restarts(cluster)
    node = cluster.url.removeprefix("http://").partition(":")[0]
    script = Path(__file__).with_name("idle_clients.py")
    arguments = [sys.executable, str(script), node, str(deploy.NODE_PORT), str(CONNECTIONS)]
    crowd = subprocess.Popen(
        lifecycle.inside(arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        opened = int(crowd.stdout.readline())
        endings = [ask(cluster.url, model="fragile", stream=stream) for stream in (True, False, True)]
        crowded = gateways.counts(cluster).since(before)
    finally:
        crowd.communicate("", timeout=60)  # it ends with its standard input

    assert opened == CONNECTIONS
    assert all(ending.is_complete for ending in endings), endings
    closed = crowded.by("reason", "diffusion_gateway_closed_connections_total")
    assert closed.keys() == {"crowded_out"}
    assert closed["crowded_out"] >= CONNECTIONS - 2 * LIMIT
    assert restarts(cluster) == restarted
    eventually(lambda: gateways.counts(cluster).sum("diffusion_gateway_connections") < 100, "all of them are gone")


def test_a_client_that_reads_one_byte_a_second_holds_up_only_itself(cluster, fragile, eventually):
    host, _, port = cluster.url.removeprefix("http://").partition(":")
    # Five alternatives for each token: more than all buffers between worker and client hold.
    body = '{"model": "fragile", "prompt": "Once", "max_tokens": 1900, "logprobs": 5, "stream": true, "seed": 1}'
    head = f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    before, memory = gateways.counts(cluster), resident_bytes(cluster)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(60)
        slow.connect((host, int(port)))
        slow.sendall((head + body).encode())
        assert slow.recv(1) == b"H"
        for _ in range(5):
            ending = ask(cluster.url, model="fragile")
            assert ending.is_complete, ending
            time.sleep(1)
            assert slow.recv(1)
        assert resident_bytes(cluster) - memory < 64 * 2**20

    eventually(
        lambda: gateways.counts(cluster).sum("diffusion_gateway_requests_in_flight") == 0,
        "its request ended when it left",
    )
    codes = gateways.counts(cluster).since(before).by("code", "diffusion_gateway_requests_total", model="fragile")
    assert codes.pop("200") in {5, 6}
    assert codes in ({"499": 1}, {}), "it left in the middle, or its answer lies in the kernel's buffers"
