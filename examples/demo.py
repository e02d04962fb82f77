"""`make demo`: from an empty machine to a story that streams out of a DiffusionModel on a real cluster.

Without KUBE_CONTEXT the throw-away cluster is started; with it, that context is used and REGISTRY says where
its nodes pull images from.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

from cluster import deploy, images, lifecycle, tools
from cluster.errors import ClusterError
from cluster.progress import Step, say

EXAMPLE = Path(__file__).parent / "storyteller.yaml"
MODEL = "storyteller"
PROMPT = "Tell me a story about a lighthouse keeper and a storm."
READY_SECONDS = 600
ON_THE_NODE = ("gateway.service.type=NodePort", f"gateway.service.nodePort={deploy.NODE_PORT}")


@dataclass(frozen=True)
class Place:
    """Where the demo runs: what kubectl talks to, and the gateway's address when the host reaches it directly."""

    target: deploy.Target
    url: str | None


def main() -> int:
    """Run the demo; the exit status is 0 when a story was told."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--prompt", default=PROMPT, help="what to ask for (default: %(default)r)")
    parser.add_argument("--no-story", action="store_true", help="stop when the model is ready to answer")
    options = parser.parse_args()
    try:
        place = prepare()
        if not options.no_story:
            with gateway_address(place) as url:
                tell(url, options.prompt)
        epilogue(place)
    except (ClusterError, deploy.DeployError, openai.OpenAIError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(
            "\ndemo: stopped; what runs goes on. `make demo` takes it up again, `make clean-cluster` ends it\n"
        )
        return 130
    return 0


def prepare() -> Place:
    """Everything up to a ready DiffusionModel. Each part is skipped fast when it was done before."""
    target = deploy.Target.named_by_user()
    if target is None:
        node = lifecycle.up()
        place = Place(
            deploy.Target(node.kubeconfig, None, tools.path("kubectl"), tools.path("helm")),
            f"http://{node.node_address}:{deploy.NODE_PORT}",
        )
        built, values = images.build(), ON_THE_NODE
    else:
        registry = os.environ.get("REGISTRY")
        if not registry:
            raise deploy.DeployError(
                "KUBE_CONTEXT needs REGISTRY=host/prefix, a registry that you may push to and your cluster pulls from"
            )
        target.require_reachable()  # before the images are built: that takes a while
        place = Place(target, None)
        built, values = images.build(registry=registry), ()
    with Step("install the chart with Helm"):
        deploy.install(place.target, built, values=values)
    place.target.kubectl("apply", "-f", str(EXAMPLE))
    wait_until_ready(place.target)
    return place


def wait_until_ready(target: deploy.Target) -> None:
    """Wait for the resource's Ready condition and for the diffusion arm's share of the traffic.

    Raises:
        DeployError: not ready in time; the message has the condition's own words.
    """
    deadline = time.monotonic() + READY_SECONDS
    with Step(f"wait for {MODEL} to serve") as step:
        while True:
            model = target.get("diffusionmodel", MODEL)
            status = model.get("status", {})
            ready, message = _condition(status, "Ready")
            seen = status.get("observedGeneration") == model["metadata"]["generation"]
            percent = sum(
                arm.get("percent", 0)
                for arm in status.get("routes", {}).get("arms", [])
                if arm.get("kind") == "diffusion"
            )
            step.detail = f"{status.get('phase', 'seen by nobody yet')}, diffusion serves {percent} %"
            if seen and ready and percent:
                return
            if time.monotonic() > deadline:
                raise deploy.DeployError(
                    f"{MODEL} was not ready after {READY_SECONDS} s: {message or 'the operator wrote no condition'}; "
                    f"see kubectl describe dm {MODEL}"
                )
            time.sleep(1)


def _condition(status: dict[str, Any], kind: str) -> tuple[bool, str]:
    for condition in status.get("conditions", []):
        if condition["type"] == kind:
            return condition["status"] == "True", condition.get("message", "")
    return False, ""


@contextlib.contextmanager
def gateway_address(place: Place) -> Iterator[str]:
    """The gateway's address; on a cluster of the user's through `kubectl port-forward`, which ends with the block."""
    if place.url is not None:
        yield place.url
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    target = place.target
    command = target.kubectl_command(
        "-n", deploy.NAMESPACE, "port-forward", f"service/{deploy.RELEASE}-gateway", f"{port}:80"
    )
    forward = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for_port(port, forward)
        yield f"http://127.0.0.1:{port}"
    finally:
        forward.send_signal(signal.SIGTERM)
        forward.wait(10)


def _wait_for_port(port: int, forward: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if forward.poll() is not None or time.monotonic() > deadline:
            words = forward.stderr.read() if forward.poll() is not None and forward.stderr else "no answer in 30 s"
            raise deploy.DeployError(f"kubectl port-forward to the gateway failed: {words.strip()}")
        time.sleep(0.2)


def tell(url: str, prompt: str) -> None:
    """Ask for a story through the official client and print each block as it arrives."""
    say(f"asking {url}/v1 for: {prompt}\n")
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
    began, first, blocks, tokens = time.monotonic(), 0.0, 0, 0
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=256,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        if chunk.choices and (text := chunk.choices[0].delta.content):
            first, blocks = first or time.monotonic(), blocks + 1
            sys.stdout.write(text)
            sys.stdout.flush()
    sys.stdout.write("\n\n")
    if not blocks:
        raise deploy.DeployError(
            f"the stream of {MODEL} ended without text: see kubectl logs -l app.kubernetes.io/name=diffusion-worker"
        )
    say(
        f"{tokens} tokens in {blocks} blocks: the first after {first - began:.2f} s, all after {time.monotonic() - began:.2f} s"
    )


def epilogue(place: Place) -> None:
    """What there is now, and how to go on."""
    target = place.target
    context = f" --context {target.context}" if target.context else ""
    sys.stdout.write(f"\n{target.kubectl('get', 'diffusionmodels')}\n")
    address = place.url or "http://127.0.0.1:8080"
    lines = [f"  OpenAI API     {address}/v1   (model {MODEL!r}, any key)"]
    if place.url is None:
        lines.append(
            f"                 after kubectl{context} -n {deploy.NAMESPACE} port-forward service/{deploy.RELEASE}-gateway 8080:80"
        )
        lines.append(f"  kubectl        kubectl{context} describe dm {MODEL}")
        lines.append(
            f"  clean up       kubectl{context} delete dm {MODEL}; helm --kube-context {target.context} -n {deploy.NAMESPACE} uninstall {deploy.RELEASE}"
        )
    else:
        kubeconfig = os.path.relpath(target.kubeconfig or "")
        lines.append(f"  kubectl        {target.kubectl_path} --kubeconfig {kubeconfig} describe dm {MODEL}")
        lines.append('                 (or: eval "$(.venv/bin/python -m cluster env)" and then plain kubectl and helm)')
        lines.append("  clean up       make clean-cluster")
    lines.append(
        f"  Helm values    {deploy.CHART.relative_to(Path.cwd()) if deploy.CHART.is_relative_to(Path.cwd()) else deploy.CHART}/values.yaml"
    )
    sys.stdout.write("Go on with\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
