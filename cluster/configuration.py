"""Everything that the cluster's programs read: certificates, kubeconfigs and configuration files.

Paths under /var and /run are those inside the cluster's mount namespace, where /var is `.cluster/var` and /run is
memory (see `sandbox.py`): programs use their usual places, and Unix sockets stay under the kernel's 108 characters
however deep the checkout lies.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster import flags
from cluster.addresses import Addresses
from cluster.instance import Instance
from cluster.pki import Authority

NODE = "node"
REGISTRY_ALIAS = "registry.local"
COREDNS_IMAGE = f"{REGISTRY_ALIAS}/coredns:1"
PAUSE_IMAGE = f"{REGISTRY_ALIAS}/pause:1"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
ETCD_URL = "http://127.0.0.1:2379"
_ETCD_PEER_URL = "http://127.0.0.1:2380"


@dataclass(frozen=True)
class Commands:
    """Command lines of the programs that the supervisor runs."""

    etcd: list[str]
    apiserver: list[str]
    controller_manager: list[str]
    scheduler: list[str]
    kube_proxy: list[str]
    containerd: list[str]
    kubelet: list[str]
    registry: list[str]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.__dict__, indent=1))

    @classmethod
    def load(cls, path: Path) -> "Commands":
        return cls(**json.loads(path.read_text()))


def commands_file(instance: Instance) -> Path:
    return instance.state.configuration / "commands.json"


def images_folder(instance: Instance) -> Path:
    """Archives of images that containerd is given at the start."""
    return instance.state.root / "images"


def write(instance: Instance, *, registry_storage: Path) -> Commands:
    """Make all files of a new cluster and return the command lines that use them."""
    state, addresses, programs = instance.state, instance.addresses, instance.programs
    etc = state.configuration
    etc.mkdir(parents=True, exist_ok=True)
    authority = Authority(state.pki)
    service_accounts = authority.issue_signing_key("service-accounts")
    kubelet_serving = authority.issue("kubelet-serving", user=f"system:node:{NODE}", addresses=[addresses.node, NODE])
    certificates = flags.ApiServerCertificates(
        authority=authority.credential,
        serving=authority.issue("apiserver", user="kube-apiserver", addresses=_api_names(addresses)),
        kubelet_client=authority.issue("apiserver-kubelet", user="apiserver", groups=["system:masters"]),
        service_accounts=service_accounts,
    )

    def kubeconfig(name: str, user: str, *groups: str) -> Path:
        credential = authority.issue(name, user=user, groups=groups)
        return authority.write_kubeconfig(
            etc / f"{name}.kubeconfig", server=addresses.api_url, credential=credential, name=instance.identity.name
        )

    admin = authority.issue("admin", user="admin", groups=["system:masters"])
    authority.write_kubeconfig(
        state.kubeconfig, server=addresses.api_url, credential=admin, name=instance.identity.name
    )
    (etc / "resolv.conf").write_text("")
    _write_json(etc / "cni" / "10-pods.conflist", _cni(addresses))
    _write_containerd(etc)
    hosts = f'server = "http://{addresses.registry}"\n[host."http://{addresses.registry}"]\ncapabilities = ["pull", "resolve"]\n'
    _write(etc / "certs.d" / REGISTRY_ALIAS / "hosts.toml", hosts)
    kubelet = _kubelet(instance, client_authority=str(authority.credential.certificate))
    kubelet |= {"tlsCertFile": str(kubelet_serving.certificate), "tlsPrivateKeyFile": str(kubelet_serving.key)}
    _write_yaml(etc / "kubelet.yaml", kubelet)
    _write_yaml(etc / "kube-proxy.yaml", _kube_proxy(addresses, kubeconfig("kube-proxy", "system:kube-proxy")))
    _write_yaml(etc / "registry.yaml", _registry(addresses, registry_storage))
    commands = Commands(
        etcd=flags.etcd(programs, data=Path("/var/lib/etcd"), client_url=ETCD_URL, peer_url=_ETCD_PEER_URL),
        apiserver=flags.apiserver(
            programs,
            certificates=certificates,
            etcd_url=ETCD_URL,
            address=addresses.node,
            port=6443,
            service_cidr=addresses.services,
            audit_policy=flags.write_audit_policy(etc / "audit-policy.yaml"),
            audit_log=state.audit_log,
        ),
        controller_manager=flags.controller_manager(
            programs,
            kubeconfig=kubeconfig("kube-controller-manager", "system:kube-controller-manager"),
            authority=authority.credential,
            service_accounts=service_accounts,
        ),
        scheduler=flags.scheduler(programs, kubeconfig=kubeconfig("kube-scheduler", "system:kube-scheduler")),
        kube_proxy=[str(programs.path("kube-proxy")), f"--config={etc / 'kube-proxy.yaml'}"],
        containerd=[str(programs.path("containerd")), f"--config={etc / 'containerd.toml'}"],
        kubelet=flags.kubelet(
            programs,
            kubeconfig=kubeconfig("kubelet", f"system:node:{NODE}", "system:nodes"),
            configuration=etc / "kubelet.yaml",
            node=NODE,
            address=addresses.node,
        ),
        registry=["docker-registry", "serve", str(etc / "registry.yaml")],
    )
    commands.save(commands_file(instance))
    return commands


def _api_names(addresses: Addresses) -> list[str]:
    service = [f"kubernetes{suffix}" for suffix in ("", ".default", ".default.svc", ".default.svc.cluster.local")]
    return [addresses.node, addresses.kubernetes_service, "127.0.0.1", "localhost", *service]


def _cni(addresses: Addresses) -> dict[str, Any]:
    # Point-to-point links: all traffic between pods is routed by the node, where kube-proxy's rules see it. Over a
    # bridge, answers from a pod on the same node would bypass them unless br_netfilter is loaded.
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": addresses.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}


def _write_containerd(etc: Path) -> None:
    cri = "plugins.'io.containerd.cri.v1"
    _write(
        etc / "containerd.toml",
        f"""\
version = 3
root = '/var/lib/containerd'
state = '/run/containerd'

[grpc]
address = '{CONTAINERD_SOCKET}'

[{cri}.images']
snapshotter = 'overlayfs'
# The registry beside it has them, should they be needed again.
discard_unpacked_layers = true

[{cri}.images'.pinned_images]
sandbox = '{PAUSE_IMAGE}'

[{cri}.images'.registry]
config_path = '{etc / "certs.d"}'

[{cri}.runtime']
# Without CAP_SYS_RESOURCE (a container, many CI machines) runc may not lower the score, and no pod would start.
restrict_oom_score_adj = true
disable_apparmor = true

[{cri}.runtime'.cni]
bin_dirs = ['/usr/lib/cni']
conf_dir = '{etc / "cni"}'

[{cri}.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[{cri}.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
""",
    )


def _kubelet(instance: Instance, *, client_authority: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{instance.identity.name}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": client_authority},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDNS": [instance.addresses.dns],
        "clusterDomain": "cluster.local",
        # The host's name servers cannot be reached from here; an empty file makes lookups of other names fail at once.
        "resolvConf": str(instance.state.configuration / "resolv.conf"),
        # The disk is the user's: the cluster must not throw away pods or images because it is nearly full.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
    }


def _kube_proxy(addresses: Addresses, kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": addresses.pods,
        "hostnameOverride": NODE,
        # A service that became ready is reached at once, not a second later.
        "nftables": {"minSyncPeriod": "100ms"},
        # The table's size is the host's, not the namespace's, to set.
        "conntrack": {"maxPerCore": 0},
    }


def _registry(addresses: Addresses, storage: Path) -> dict[str, Any]:
    return {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(storage)}, "delete": {"enabled": True}},
        "http": {"addr": addresses.registry},
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_yaml(path: Path, document: dict[str, Any]) -> None:
    _write(path, yaml.safe_dump(document, sort_keys=False))


def _write_json(path: Path, document: dict[str, Any]) -> None:
    _write(path, json.dumps(document, indent=1))
