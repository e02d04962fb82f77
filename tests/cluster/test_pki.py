"""The certificates say who somebody is to Kubernetes, and where a server may be found."""

import base64
import ipaddress
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.pki import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_user_and_groups_stand_where_kubernetes_looks_for_them(authority: Authority) -> None:
    issued = authority.issue("kubelet", user="system:node:node", groups=["system:nodes", "others"])

    subject = certificate(issued.certificate).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:node:node"]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:nodes", "others"]


def test_a_certificate_is_signed_by_the_authority(authority: Authority) -> None:
    issued = certificate(authority.issue("admin", user="admin").certificate)

    issued.verify_directly_issued_by(certificate(authority.credential.certificate))


def test_only_a_server_certificate_serves(authority: Authority) -> None:
    client = certificate(authority.issue("client", user="client").certificate)
    server = certificate(authority.issue("server", user="server", addresses=["10.64.0.2", "node"]).certificate)

    usage = client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert ExtendedKeyUsageOID.SERVER_AUTH not in usage
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.64.0.2")]
    assert names.get_values_for_type(x509.DNSName) == ["node"]


def test_keys_are_for_their_owner_only(authority: Authority, tmp_path: Path) -> None:
    admin = authority.issue("admin", user="admin")
    kubeconfig = authority.write_kubeconfig(
        tmp_path / "kubeconfig", server="https://192.0.2.1:6443", credential=admin, name="test"
    )

    assert admin.key.stat().st_mode & 0o077 == 0
    assert kubeconfig.stat().st_mode & 0o077 == 0


def test_a_kubeconfig_needs_no_other_file(authority: Authority, tmp_path: Path) -> None:
    admin = authority.issue("admin", user="admin")

    path = authority.write_kubeconfig(
        tmp_path / "kubeconfig", server="https://192.0.2.1:6443", credential=admin, name="test"
    )

    document = yaml.safe_load(path.read_text())
    user = document["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == admin.certificate.read_bytes()
    assert document["current-context"] == "test"
    assert str(tmp_path) not in path.read_text()
