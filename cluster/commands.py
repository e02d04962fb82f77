"""The commands of `python -m cluster`."""

import argparse
import json
import os
import re
import shlex
import sys
from dataclasses import asdict
from typing import Any

from cluster import images, lifecycle, node, programs, prometheus, pruning, tools
from cluster.errors import ClusterError
from cluster.progress import say


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register all commands."""

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        made = subparsers.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    up = command("up", _up, "start the cluster, or say that it runs")
    up.add_argument("--gpus", type=int, default=0, metavar="N", help="let the node claim N GPUs (there is no device)")
    up.add_argument("--gpu-memory", default="80Gi", metavar="QUANTITY", help="memory of each (default %(default)s)")
    up.add_argument("--prometheus", action="store_true", help="also run Prometheus, scraping annotated pods")
    command("down", _down, "end the cluster and remove everything that belonged to it")
    command("status", _status, "show what runs")
    command("build", _build, "compile the cluster's programs into the cache")
    build_images = command("images", _images, "build the project's images, push them, print their references")
    build_images.add_argument("--registry", metavar="HOST/PREFIX", help="push there, not to the cluster's registry")
    command("prune", _prune, "empty the cache of downloads, programs and image layers that all checkouts share")
    tool = command("tool", _tool, "print the path of kubectl, helm, promtool or one of the cluster's programs")
    tool.add_argument("name")
    command("env", _env, 'print shell commands that point kubectl and helm at the cluster: eval "$(…)"')
    execute = command("exec", _exec, "run a command in the cluster's network namespace: exec -- CMD …")
    execute.add_argument("--inside", action="store_true", help="also in its mount and PID namespaces, as for ctr")
    execute.add_argument("argv", nargs="+", metavar="CMD")


def _up(arguments: argparse.Namespace) -> None:
    claimed = node.Accelerators(count=arguments.gpus, memory_mib=_mebibytes(arguments.gpu_memory))
    instance = lifecycle.up(claimed)
    if arguments.prometheus:
        prometheus.install(instance)
    say(f"node {instance.addresses.node}, kubeconfig {instance.state.kubeconfig}, logs {instance.state.logs}")


def _down(_arguments: argparse.Namespace) -> None:
    lifecycle.down()


def _status(_arguments: argparse.Namespace) -> int:
    now = lifecycle.status()
    if now.instance is None or now.supervisor is None:
        sys.stdout.write("not running\n")
        return 3
    addresses = now.instance.addresses
    sys.stdout.write(f"running, supervised by process {now.supervisor}\n")
    sys.stdout.write(f"API server {addresses.api_url}, registry {addresses.registry}, node ports {addresses.node}\n")
    sys.stdout.write(f"kubeconfig {now.instance.state.kubeconfig}\n")
    if now.instance.programs.folder.name != programs.cache_key():
        sys.stdout.write("its programs are not those that go.mod pins now: `down`, then `up`\n")
    if now.instance.state.component_status.exists():
        for component in json.loads(now.instance.state.component_status.read_text()):
            state = "running" if component["running"] else "ended, to be started again"
            sys.stdout.write(f"  {component['name']:<26}{state}, {component['restarts']} restarts\n")
    return 0


def _build(_arguments: argparse.Namespace) -> None:
    sys.stdout.write(f"{programs.ensure().folder}\n")


def _images(arguments: argparse.Namespace) -> None:
    built = images.build(arguments.registry)
    for part, reference in asdict(built).items():
        sys.stdout.write(f"{part} {reference}\n")


def _prune(_arguments: argparse.Namespace) -> None:
    freed = pruning.prune()
    sys.stdout.write(
        f"freed {freed / 2**30:.1f} GiB; Go's own caches stay (`go clean -cache -modcache` empties them)\n"
    )


def _tool(arguments: argparse.Namespace) -> None:
    sys.stdout.write(f"{tools.path(arguments.name)}\n")


def _env(_arguments: argparse.Namespace) -> None:
    instance = lifecycle.running_instance()
    folders = [instance.programs.folder, tools.path("helm").parent]
    sys.stdout.write(f"export NO_PROXY={shlex.quote(os.environ['NO_PROXY'])}\n")
    sys.stdout.write(f"export KUBECONFIG={shlex.quote(str(instance.state.kubeconfig))}\n")
    sys.stdout.write(f'export PATH={":".join(shlex.quote(str(folder)) for folder in folders)}:"$PATH"\n')


def _exec(arguments: argparse.Namespace) -> None:
    command = lifecycle.inside(arguments.argv, all_namespaces=arguments.inside)
    os.execvp(command[0], command)  # noqa: S606 - what was asked for


def _mebibytes(quantity: str) -> int:
    units = {"Mi": 1, "Gi": 1024, "Ti": 1024**2}
    found = re.fullmatch(r"(\d+)(Mi|Gi|Ti)", quantity)
    if found is None:
        raise ClusterError(f"--gpu-memory {quantity!r} is not a memory size: write it like 80Gi or 81920Mi")
    return int(found[1]) * units[found[2]]
