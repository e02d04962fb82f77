"""Certificates and kubeconfigs of the throw-away cluster, made fresh for each one.

Everything is valid for a year and signed by an authority whose key never leaves the cluster's folder.
"""

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Credential:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that writes what it issues into `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "throw-away-cluster")])
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.credential = self._save("ca", certificate, self._key)

    def issue(
        self,
        name: str,
        *,
        user: str,
        groups: Sequence[str] = (),
        addresses: Sequence[str] = (),
    ) -> Credential:
        """Issue `<name>.crt` and `<name>.key` for the Kubernetes user `user` in `groups`.

        With `addresses` (IP addresses or DNS names) the certificate also serves TLS under them.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(subject, self._name, key.public_key())
        if addresses:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names = [_general_name(address) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return self._save(name, builder.sign(self._key, hashes.SHA256()), key)

    def issue_signing_key(self, name: str) -> Credential:
        """Write a bare key pair (`<name>.pub`, `<name>.key`), as service account tokens are signed with."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        credential = Credential(self.folder / f"{name}.pub", self.folder / f"{name}.key")
        credential.certificate.write_bytes(public)
        _write_secret(credential.key, _private_pem(key))
        return credential

    def write_kubeconfig(self, path: Path, *, server: str, credential: Credential, name: str) -> Path:
        """Write a kubeconfig that needs no other file: `server` reached with `credential`, context called `name`."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _base64(self.credential.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _base64(credential.certificate),
                        "client-key-data": _base64(credential.key),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        _write_secret(path, yaml.safe_dump(document, sort_keys=False).encode())
        return path

    def _save(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Credential:
        credential = Credential(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        credential.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_secret(credential.key, _private_pem(key))
        return credential


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
