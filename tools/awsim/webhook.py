"""The Kubernetes token webhook that EKS runs in its control plane: an STS token says who calls.

The token is `k8s-aws-v1.` and a presigned GetCallerIdentity URL in base64
(https://github.com/kubernetes-sigs/aws-iam-authenticator, pkg/token/token.go); the answer is a
TokenReview of authentication.k8s.io/v1. The cluster's name is a signed header that the reader of the
URL adds: a token for another cluster fails by its signature.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from tools.awsim import neighbours
from tools.awsim.eks_access import ADMIN_POLICY
from tools.awsim.eks_app import Eks
from tools.awsim.eks_state import Cluster

PREFIX = "k8s-aws-v1."
LIFE = datetime.timedelta(minutes=15)
"""`presignedURLExpiration` of aws-iam-authenticator: counted from X-Amz-Date."""
HEADER = "x-k8s-aws-id"
Caller = Callable[[str, str], str]
"""(access key, region) -> the caller's ARN."""


class Denied(Exception):
    """The token is not accepted; the message says why."""


@dataclass(frozen=True)
class Token:
    """A token that is well-formed, in time and for this server."""

    url: SplitResult
    query: dict[str, str]

    @property
    def access_key(self) -> str:
        return self.query["X-Amz-Credential"].split("/")[0]

    @property
    def region(self) -> str:
        return self.query["X-Amz-Credential"].split("/")[2]

    def signed_for(self, cluster: str, secret: str) -> bool:
        """Whether the signature is that of the URL with this cluster's name in the header."""
        return hmac.compare_digest(self.query.get("X-Amz-Signature", ""), signature(self, cluster, secret))


def review(content: dict[str, Any], eks: Eks, server: str, caller: Caller = neighbours.caller_arn) -> dict[str, Any]:
    """The TokenReview with its status. `server` is this stand-in's host and port."""
    try:
        user = _user(read_token(content.get("spec", {}).get("token", ""), server), eks, caller)
        status: dict[str, Any] = {"authenticated": True, "user": user}
    except Denied as denied:
        status = {"authenticated": False, "error": str(denied)}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}


def read_token(token: str, server: str, now: datetime.datetime | None = None) -> Token:
    """Raises Denied for what is no token, is out of date, or belongs to another server."""
    if not token.startswith(PREFIX):
        raise Denied(f"the token does not start with {PREFIX}")
    text = token.removeprefix(PREFIX)
    try:
        url = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    except (binascii.Error, UnicodeDecodeError):
        raise Denied("the token holds no base64 URL") from None
    query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
    if url.netloc != server:
        raise Denied(f"the token's URL is for {url.netloc}, not for {server}")
    if query.get("Action") != "GetCallerIdentity":
        raise Denied("the token's URL is not for GetCallerIdentity")
    if HEADER not in query.get("X-Amz-SignedHeaders", "").split(";"):
        raise Denied(f"the token's URL does not sign {HEADER}")
    _require_in_time(query.get("X-Amz-Date", ""), now or datetime.datetime.now(datetime.UTC))
    parts = query.get("X-Amz-Credential", "").split("/")
    if len(parts) != 5 or parts[3] != "sts":
        raise Denied("the token's URL has no credential for sts")
    return Token(url, query)


def _require_in_time(date: str, now: datetime.datetime) -> None:
    try:
        made = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    except ValueError:
        raise Denied("the token's URL has no X-Amz-Date") from None
    if not made - LIFE <= now <= made + LIFE:
        raise Denied(f"the token expired at {made + LIFE:%H:%M:%S} UTC")


def signature(token: Token, cluster: str, secret: str) -> str:
    """Signature Version 4 of the presigned URL
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html)."""
    signed = token.query["X-Amz-SignedHeaders"]
    values = {"host": token.url.netloc, HEADER: cluster}
    headers = "".join(f"{name}:{values.get(name, '')}\n" for name in signed.split(";"))
    pairs = sorted((key, value) for key, value in token.query.items() if key != "X-Amz-Signature")
    query = "&".join(f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in pairs)
    empty = hashlib.sha256(b"").hexdigest()
    request = "\n".join(["GET", token.url.path or "/", query, headers, signed, empty])
    _, day, region, service, end = token.query["X-Amz-Credential"].split("/")
    scope = "/".join([day, region, service, end])
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", token.query["X-Amz-Date"], scope, hashed])
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, end):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _user(token: Token, eks: Eks, caller: Caller) -> dict[str, Any]:
    clusters = [found for found in eks.region(token.region).clusters.values() if not found.gone]
    if not clusters:
        raise Denied(f"there is no EKS cluster in {token.region}")
    secret = neighbours.secret_of(token.access_key)
    meant = [cluster for cluster in clusters if token.signed_for(cluster.name, secret)]
    if not meant:
        names = ", ".join(cluster.name for cluster in clusters)
        raise Denied(f"the token's signature fits no cluster of {token.region} ({names})")
    arn, cluster = caller(token.access_key, token.region), meant[0]
    groups = groups_of(cluster, arn)
    if not groups:
        raise Denied(f"{arn} has no access entry of {cluster.name} with cluster administration or Kubernetes groups")
    return {"username": cluster.access[arn]["username"], "uid": arn, "groups": groups,
            "extra": {"arn": [arn], "cluster": [cluster.name]}}  # fmt: skip


def groups_of(cluster: Cluster, arn: str) -> list[str]:
    """The Kubernetes groups that a principal has in a cluster. Only the administrator's policy is known."""
    entry = cluster.access.get(arn)
    if entry is None:
        return []
    policy = cluster.policies.get(arn, {}).get(ADMIN_POLICY)
    admin = ["system:masters"] if policy and policy["accessScope"]["type"] == "cluster" else []
    return [*admin, *entry["kubernetesGroups"]]
