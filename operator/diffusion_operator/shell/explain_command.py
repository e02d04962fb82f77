"""`diffusion-operator explain NAME`: what happened to a rollout and why, from the resource and its events."""

import argparse
import asyncio
from collections.abc import Mapping

from .plan_command import BAD_INPUT

DESCRIPTION = """\
Tell in plain words what happened to the rollout of a DiffusionModel and why, what it waits for, and what a person can do.
Reads the resource and its events; writes nothing.
"""

EPILOG = """\
examples:
  diffusion-operator explain storyteller --namespace stories
  kubectl -n diffusion-system exec deploy/diffusion-operator -- diffusion-operator explain storyteller -n stories
"""


def add_arguments(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Arguments of the command."""
    parser.add_argument("name", help="name of the DiffusionModel")
    parser.add_argument("-n", "--namespace", default="default", help="its namespace (default: default)")
    parser.add_argument(
        "--kubeconfig",
        default=environment.get("KUBECONFIG"),
        help="kubeconfig file; default: the pod's service account or ~/.kube/config [$KUBECONFIG]",
    )


def run(options: argparse.Namespace) -> tuple[int, str]:
    """Exit code and text."""
    from .story import NoStoryError, story  # kubernetes takes a second to import: not for other commands

    try:
        return 0, asyncio.run(story(options.namespace, options.name, kubeconfig=options.kubeconfig))
    except NoStoryError as error:
        return BAD_INPUT, f"{error}\n"
