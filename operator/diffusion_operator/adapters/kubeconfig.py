"""The way to the API server: the pod's service account, or a kubeconfig file."""

import os
from pathlib import Path

import yaml
from kubernetes.aio import client, config

from .errors import NoClusterError

_DEFAULT = "~/.kube/config"
_WHAT_TO_DO = "name a kubeconfig file with --kubeconfig or $KUBECONFIG, or run in a pod with a service account"
# A file that is something else fails in whichever way the client library meets it first.
_UNUSABLE = (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError)


async def load(configuration: client.Configuration, kubeconfig: str | None) -> None:
    """Fill in `configuration` from `kubeconfig`, files as kubectl takes them; None: the service account, or else the user's file.

    Raises:
        NoClusterError: there is no such file, or it cannot be used.
    """
    if kubeconfig is None and _has_service_account(configuration):
        return
    files = kubeconfig or _DEFAULT
    # The library takes files that are not there for an empty one, and complains of what it lacks.
    if not _exists(files):
        missing = f"there is no kubeconfig file {files}"
        raise NoClusterError(
            f"no way to a cluster: {missing}{'' if kubeconfig else ' and no service account'}; {_WHAT_TO_DO}"
        )
    try:
        await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=files, client_configuration=configuration
        )
    except _UNUSABLE as error:
        why = " ".join(str(error).split())
        raise NoClusterError(
            f"no way to a cluster: the kubeconfig file {files} cannot be used ({why}); {_WHAT_TO_DO}"
        ) from None


def _has_service_account(configuration: client.Configuration) -> bool:
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        return False
    return True


def _exists(files: str) -> bool:
    return any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file)
