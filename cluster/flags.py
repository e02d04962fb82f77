"""Command lines of the cluster's programs. The test control plane shares those of etcd and kube-apiserver."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from cluster.pki import Credential
from cluster.programs import Programs


@dataclass(frozen=True)
class ApiServerCertificates:
    """What the API server trusts and shows."""

    authority: Credential
    serving: Credential
    kubelet_client: Credential
    service_accounts: Credential


def etcd(programs: Programs, *, data: Path, client_url: str, peer_url: str) -> list[str]:
    """A single etcd that keeps its data in `data`.

    It never waits for the disk: a throw-away cluster that loses its last second when the power fails is made anew.
    """
    return [
        str(programs.path("etcd")),
        f"--data-dir={data}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(
    programs: Programs,
    *,
    certificates: ApiServerCertificates,
    etcd_url: str,
    address: str,
    port: int,
    service_cidr: str,
    audit_policy: Path,
    audit_log: Path,
) -> list[str]:
    """A kube-apiserver at `address:port` that writes an audit log."""
    return [
        str(programs.path("kube-apiserver")),
        f"--etcd-servers={etcd_url}",
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificates.serving.certificate}",
        f"--tls-private-key-file={certificates.serving.key}",
        f"--client-ca-file={certificates.authority.certificate}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.service_accounts.certificate}",
        f"--service-account-signing-key-file={certificates.service_accounts.key}",
        f"--kubelet-client-certificate={certificates.kubelet_client.certificate}",
        f"--kubelet-client-key={certificates.kubelet_client.key}",
        f"--kubelet-certificate-authority={certificates.authority.certificate}",
        # Otherwise logs and exec would try to resolve the node's name.
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={service_cidr}",
        "--allow-privileged=true",
        "--profiling=false",
        f"--audit-policy-file={audit_policy}",
        f"--audit-log-path={audit_log}",
        "--audit-log-maxsize=200",
        "--audit-log-maxbackup=1",
    ]


def controller_manager(
    programs: Programs, *, kubeconfig: Path, authority: Credential, service_accounts: Credential
) -> list[str]:
    """All of Kubernetes' controllers, signing certificates with `authority`."""
    return [
        str(programs.path("kube-controller-manager")),
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={service_accounts.key}",
        f"--root-ca-file={authority.certificate}",
        f"--cluster-signing-cert-file={authority.certificate}",
        f"--cluster-signing-key-file={authority.key}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--profiling=false",
    ]


def scheduler(programs: Programs, *, kubeconfig: Path) -> list[str]:
    """The default scheduler."""
    return [
        str(programs.path("kube-scheduler")),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--profiling=false",
    ]


def kubelet(programs: Programs, *, kubeconfig: Path, configuration: Path, node: str, address: str) -> list[str]:
    """The node agent of `node`, reached at `address`."""
    return [
        str(programs.path("kubelet")),
        f"--config={configuration}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node}",
        f"--node-ip={address}",
    ]


def write_audit_policy(path: Path) -> Path:
    """Record who did what to which object, without bodies; leave out the answers' first stage and health checks."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]}, {"level": "Metadata"}],
    }
    path.write_text(yaml.safe_dump(policy, sort_keys=False))
    return path
