"""While requests stream, parts die. Nothing hangs, clients get an answer or a clear error, all is Ready again without help."""

import threading
import time
from dataclasses import dataclass, field
from typing import Self

import httpx2
import openai
import pytest

DIFFUSION = "serving.diffusion-operator.dev/model=storyteller,serving.diffusion-operator.dev/kind=diffusion"
SYSTEM = "diffusion-system"
# Finds Triton's python stub among all processes of the container and kills it, as an out-of-memory kill would.
KILL_STUB = """
import os, pathlib, signal
for entry in pathlib.Path('/proc').glob('[0-9]*'):
    try: name = (entry / 'comm').read_text()
    except OSError: continue
    if name.startswith('triton_python'): os.kill(int(entry.name), signal.SIGKILL); print('killed', entry.name)
"""


@dataclass
class Outcomes:
    """How each request ended."""

    answered: int = 0
    clear_errors: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


class Load:
    """Three clients that ask for streamed stories again and again, bounded in count and time."""

    def __init__(self, client_of, *, clients: int = 3, requests: int = 200) -> None:
        self.outcomes = Outcomes()
        self._requests, self._stop, self._lock = requests, threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(client_of(timeout=90),)) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads), "a request hangs"

    def wait_for_answers(self, count: int, *, within: float = 120) -> None:
        deadline, goal = time.monotonic() + within, self.outcomes.answered + count
        while self.outcomes.answered < goal:
            assert time.monotonic() < deadline, f"no {count} answers within {within} s: {self.outcomes}"
            time.sleep(0.2)

    def _run(self, client: openai.OpenAI) -> None:
        for _ in range(self._requests):
            if self._stop.is_set():
                return
            self._ask(client)

    def _ask(self, client: openai.OpenAI) -> None:
        try:
            stream = client.completions.create(
                model="storyteller", prompt="Once upon a time", max_tokens=192, stream=True
            )
            reasons = [choice.finish_reason for chunk in stream for choice in chunk.choices]
            with self._lock:
                if reasons and reasons[-1]:
                    self.outcomes.answered += 1
                else:
                    self.outcomes.unclear.append("the stream ended without a finish reason")
        except openai.APITimeoutError as error:
            self.outcomes.unclear.append(f"hung: {error!r}")
        except openai.APIError as error:
            # APIStatusError and SSE error events carry our words; a cut connection is one too.
            self.outcomes.clear_errors.append(f"{type(error).__name__}: {error}")
            time.sleep(0.2)
        except httpx2.HTTPError as error:
            self.outcomes.clear_errors.append(f"{type(error).__name__}: {error}")
            time.sleep(0.2)


def kill_worker_pod(cluster):
    pod = cluster.ready_pods(DIFFUSION)[0]
    cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")


def delete_worker_pod(cluster):
    cluster.kubectl("delete", "pod", cluster.ready_pods(DIFFUSION)[0], "--wait=false")


def kill_triton_stub(cluster):
    pod = cluster.ready_pods(DIFFUSION)[0]
    assert "killed" in cluster.kubectl("exec", pod, "--", "python", "-c", KILL_STUB)


def delete_operator_pod(cluster):
    pod = cluster.ready_pods("app.kubernetes.io/component=operator", namespace=SYSTEM)[0]
    cluster.kubectl("delete", "pod", "-n", SYSTEM, pod, "--wait=false")


def kill_gateway_pod(cluster):
    pod = cluster.ready_pods("app.kubernetes.io/component=gateway", namespace=SYSTEM)[0]
    cluster.kubectl("delete", "pod", "-n", SYSTEM, pod, "--grace-period=0", "--force", "--wait=false")


@pytest.mark.parametrize(
    "disrupt", [delete_worker_pod, kill_worker_pod, kill_triton_stub, delete_operator_pod, kill_gateway_pod]
)
def test_streams_survive_or_fail_clearly_and_all_heals(cluster, eventually, disrupt):
    with Load(cluster.client) as load:
        load.wait_for_answers(2)
        disrupt(cluster)
        load.wait_for_answers(5)
        eventually(cluster.everything_is_ready, f"everything is Ready again after {disrupt.__name__}")
        load.wait_for_answers(2)

    assert not load.outcomes.unclear, load.outcomes
    assert load.outcomes.answered > len(load.outcomes.clear_errors), load.outcomes


def test_a_deleted_worker_pod_costs_no_request_its_answer(cluster):
    """A pod that is asked to go drains; what cannot reach it any more is answered by AR."""
    with Load(cluster.client) as load:
        load.wait_for_answers(2)
        delete_worker_pod(cluster)
        load.wait_for_answers(10)

    assert not load.outcomes.clear_errors, load.outcomes
    assert not load.outcomes.unclear, load.outcomes


def test_a_client_that_goes_away_frees_its_row(cluster, eventually):
    stream = cluster.client().completions.create(model="storyteller", prompt="Once", max_tokens=1500, stream=True)
    next(iter(stream))
    stream.close()

    pod = cluster.ready_pods(DIFFUSION)[0]

    def rows_in_flight():
        metrics = cluster.kubectl("get", "--raw", f"/api/v1/namespaces/default/pods/{pod}:8002/proxy/metrics")
        line = next(line for line in metrics.splitlines() if line.startswith("dlm_rows_in_flight"))
        return float(line.rsplit(" ", 1)[1])

    eventually(lambda: rows_in_flight() == 0, "the row is free", within=60)
