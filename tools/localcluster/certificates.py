"""The cluster's own certificate authority, the certificates of its components, and kubeconfigs.

Certificates are made once and kept: a restarted cluster is the same cluster.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.localcluster.layout import (
    API_PORT,
    CONTEXT,
    KUBERNETES_SERVICE_ADDRESS,
    NODE_ADDRESS,
    NODE_NAME,
)

VALIDITY_DAYS = 3650


@dataclass(frozen=True)
class Subject:
    """One certificate: its file name, Kubernetes user, groups, and the names it serves under."""

    file: str
    user: str
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


# User and group names: https://kubernetes.io/docs/setup/best-practices/certificates/ (1.34)
SUBJECTS = (
    Subject(
        "apiserver",
        "kube-apiserver",
        names=(
            NODE_ADDRESS,
            KUBERNETES_SERVICE_ADDRESS,
            "127.0.0.1",
            "kubernetes.default.svc",
            "kubernetes",
        ),
    ),
    Subject("apiserver-kubelet", "splitserve:apiserver", ("system:masters",)),
    Subject("kubelet", f"system:node:{NODE_NAME}", ("system:nodes",), (NODE_ADDRESS, NODE_NAME)),
    Subject("controller-manager", "system:kube-controller-manager"),
    Subject("scheduler", "system:kube-scheduler"),
    Subject("proxy", "system:kube-proxy"),
    Subject("coredns", "splitserve:coredns"),
    Subject("admin", "splitserve:admin", ("system:masters",)),
)


def ensure_certificates(pki: Path) -> None:
    """Make the authority, every certificate in `SUBJECTS` and the service-account key, once."""
    if (pki / "complete").exists():
        return
    pki.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    _write_certificate(pki / "ca.crt", authority)
    for subject in SUBJECTS:
        key = ec.generate_private_key(ec.SECP256R1())
        _write_key(pki / f"{subject.file}.key", key)
        _write_certificate(pki / f"{subject.file}.crt", _leaf(subject, key, authority, authority_key))
    _write_key(pki / "service-account.key", ec.generate_private_key(ec.SECP256R1()))
    (pki / "complete").touch()


def kubeconfig(pki: Path, user: str) -> str:
    """A kubeconfig that holds its certificates inline and verifies the server's."""

    def inline(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": CONTEXT,
            "clusters": [
                {
                    "name": CONTEXT,
                    "cluster": {
                        "server": f"https://{NODE_ADDRESS}:{API_PORT}",
                        "certificate-authority-data": inline("ca.crt"),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": inline(f"{user}.crt"),
                        "client-key-data": inline(f"{user}.key"),
                    },
                }
            ],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
        }
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, without a moment in which others could."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "splitserve local authority")])
    return (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    subject: Subject,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    name = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in subject.groups]
        + [x509.NameAttribute(NameOID.COMMON_NAME, subject.user)]
    )
    builder = _builder(name, authority.subject, key.public_key())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if subject.names:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(n) for n in subject.names]), critical=False
        )
    return (
        builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        # An hour back, so that a clock that is set right after the start does not void them.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALIDITY_DAYS))
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_private(path, pem.decode())
