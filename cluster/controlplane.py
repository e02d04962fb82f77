"""Real etcd and kube-apiserver on loopback, for tests of what only an API server can answer.

No namespaces, no root, no nodes: CRDs, CEL rules, server-side apply, RBAC and watches work; nothing is scheduled, no
garbage is collected and deleted namespaces stay in Terminating, as there are no controllers.
"""

import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kubernetes import client, config

from cluster import flags, programs
from cluster.errors import ClusterError
from cluster.pki import Authority, Credential

_START_SECONDS = 180.0  # three are enough on a quiet machine
_ATTEMPTS = 3
_LOOPBACK = "127.0.0.1"
_API_SERVER = "kube-apiserver"
# The kernel ends the program when we die, however we die.
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


class ControlPlane:
    """A context manager: an API server that answers within the block and is gone after it.

    >>> with ControlPlane() as plane:
    ...     core = client.CoreV1Api(plane.api_client())

    Start it from the main thread: the kernel ends its processes when the thread that started them ends, so nothing
    is left behind by a test run that is killed.
    """

    def __init__(self, *, service_cidr: str = "10.96.0.0/16") -> None:
        self._service_cidr = service_cidr
        self._folder: Path | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._authority: Authority | None = None
        self._admin: Credential | None = None
        self.url = ""
        self.etcd_url = ""

    @property
    def folder(self) -> Path:
        """Where its files and logs are while it runs."""
        if self._folder is None:
            raise ClusterError("the control plane is not running: use it as a context manager")
        return self._folder

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of a user in system:masters."""
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON line per request that was answered, without bodies."""
        return self.folder / "audit.log"

    def kubeconfig_for(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """Kubeconfig of the Kubernetes user `user`, for tests of RBAC.

        A service account's user is `system:serviceaccount:<namespace>:<name>`.
        """
        if self._authority is None:
            raise ClusterError("the control plane is not running: use it as a context manager")
        name = user.replace(":", "-")
        credential = self._authority.issue(name, user=user, groups=groups)
        path = self.folder / f"{name}.kubeconfig"
        return self._authority.write_kubeconfig(path, server=self.url, credential=credential, name="test")

    def api_client(self, kubeconfig: Path | None = None) -> client.ApiClient:
        """A client of the official library, as the administrator unless another kubeconfig is given."""
        made: client.ApiClient = config.new_client_from_config(str(kubeconfig or self.kubeconfig))  # type: ignore[no-untyped-call]
        return made

    @contextmanager
    def api_server_away(self) -> Iterator[None]:
        """Kill the API server and start it again after the block. It remembers no watch: all of them begin anew."""
        if self._admin is None:
            raise ClusterError("the control plane is not running: use it as a context manager")
        killed = self._processes.pop(_API_SERVER)
        killed.kill()
        killed.wait()
        yield
        self._run(_API_SERVER, [str(argument) for argument in killed.args][len(_ENDS_WITH_US) :])  # type: ignore[union-attr]
        self._wait_until_ready(self._admin)

    def __enter__(self) -> Self:
        built = programs.ensure()
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start(built)
            except _PortTakenError:
                # Somebody took a port between our looking for a free one and our program's taking it.
                self._stop()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                self._stop()
                raise
            else:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, built: programs.Programs) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
        etcd_port, peer_port, api_port = _free_ports(3)
        self.url, self.etcd_url = f"https://{_LOOPBACK}:{api_port}", f"http://{_LOOPBACK}:{etcd_port}"
        self._authority = Authority(self._folder / "pki")
        self._run(
            "etcd",
            flags.etcd(
                built,
                data=self._folder / "etcd",
                client_url=self.etcd_url,
                peer_url=f"http://{_LOOPBACK}:{peer_port}",
            ),
        )
        self._admin = admin = self._authority.issue("admin", user="admin", groups=["system:masters"])
        self._authority.write_kubeconfig(self.kubeconfig, server=self.url, credential=admin, name="test")
        certificates = flags.ApiServerCertificates(
            authority=self._authority.credential,
            serving=self._authority.issue("apiserver", user="kube-apiserver", addresses=[_LOOPBACK, "localhost"]),
            kubelet_client=admin,
            service_accounts=self._authority.issue_signing_key("service-accounts"),
        )
        command = flags.apiserver(
            built,
            certificates=certificates,
            etcd_url=self.etcd_url,
            address=_LOOPBACK,
            port=api_port,
            service_cidr=self._service_cidr,
            audit_policy=flags.write_audit_policy(self._folder / "audit-policy.yaml"),
            audit_log=self.audit_log,
        )
        # Nobody makes the service accounts that pods would need, as there are no controllers.
        self._run(_API_SERVER, [*command, "--disable-admission-plugins=ServiceAccount"])
        self._wait_until_ready(admin)

    def _run(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*_ENDS_WITH_US, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C in the terminal is ours to handle, in order
            )

    def _wait_until_ready(self, admin: Credential) -> None:
        context = ssl.create_default_context(cafile=str(self.folder / "pki" / "ca.crt"))
        context.load_cert_chain(admin.certificate, admin.key)
        # A proxy of the environment has no business between us and loopback.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            self._raise_if_one_ended()
            try:
                with opener.open(f"{self.url}/readyz", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.1)
        raise ClusterError(f"kube-apiserver was not ready after {_START_SECONDS:.0f} s: {self._last_line()}")

    def _raise_if_one_ended(self) -> None:
        for process in self._processes.values():
            if process.poll() is not None:
                text = self._last_line()
                kind = _PortTakenError if "address already in use" in text else ClusterError
                raise kind(f"a program of the control plane ended with status {process.returncode}: {text}")

    def _last_line(self) -> str:
        lines = [
            line for log in self.folder.glob("*.log") for line in log.read_text(errors="replace").splitlines()[-1:]
        ]
        return " | ".join(lines)

    def _stop(self) -> None:
        # Nothing is worth keeping, so they need not end in an orderly way (the API server takes seconds for that).
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class _PortTakenError(ClusterError):
    """One of the ports that were free a moment ago is not any more."""


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until all are found, so that they differ."""
    sockets = [socket.create_server((_LOOPBACK, 0)) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
