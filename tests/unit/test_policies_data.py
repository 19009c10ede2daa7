"""Cases of policies/data.py and policies/cluster.py."""

from __future__ import annotations

from typing import Any

from policies.cluster import CLUSTER
from policies.data import BLOCKS, BUCKET, BUCKET_ENCRYPTION, KEY, LOG_GROUP, PUBLIC_ACCESS_BLOCK, VOLUMES
from tests.unit.test_policies import SATISFIES, UNDECIDED, UNKNOWN, VIOLATES, Case, Made, hold, titled


def cluster(**props: Any) -> Made:
    return Made(CLUSTER, {"roleArn": UNKNOWN, "version": "1.34", **props}, "eks")


def encryption(resources: list[str]) -> dict[str, Any]:
    return {"provider": {"keyArn": UNKNOWN}, "resources": resources}


NEW = Made(BUCKET, {"bucket": UNKNOWN, "id": UNKNOWN, "serverSideEncryptionConfiguration": UNKNOWN}, "logs")
OLD = Made(BUCKET, {"bucket": "logs-1", "id": "logs-1"}, "logs")


def encrypted_by(bucket: str, *sources: Made) -> Made:
    rules = [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms"}}]
    return Made(BUCKET_ENCRYPTION, {"bucket": bucket, "rules": rules}, "sse", {"bucket": sources})


def closed_by(bucket: str, *sources: Made, **changes: Any) -> Made:
    settings = {**dict.fromkeys(BLOCKS, True), **changes}
    return Made(PUBLIC_ACCESS_BLOCK, {"bucket": bucket, **settings}, "block", {"bucket": sources})


SECRETS = [
    Case("secrets-encrypted", VIOLATES, "nothing", [cluster()], ["`eks`", "secrets"]),
    Case("secrets-encrypted", VIOLATES, "other resources", [cluster(encryptionConfig=encryption([]))]),
    Case("secrets-encrypted", SATISFIES, "a key not made yet", [cluster(encryptionConfig=encryption(["secrets"]))]),
    Case("secrets-encrypted", UNDECIDED, "unknown", [cluster(encryptionConfig=UNKNOWN)]),
]
BUCKETS = [
    Case("buckets-encrypted", VIOLATES, "nothing", [OLD], ["`logs`"]),
    Case("buckets-encrypted", VIOLATES, "nothing, preview", [NEW]),
    Case("buckets-encrypted", VIOLATES, "another's", [OLD, encrypted_by("logs-2")]),
    Case("buckets-encrypted", SATISFIES, "a resource of its own", [OLD, encrypted_by("logs-1")]),
    Case("buckets-encrypted", SATISFIES, "the same, preview", [NEW, encrypted_by(UNKNOWN, NEW)]),
    Case("buckets-encrypted", SATISFIES, "inline", [
        Made(BUCKET, {"bucket": "b", "serverSideEncryptionConfiguration": {"rule": {"bucketKeyEnabled": True}}})]),
    Case("buckets-private", VIOLATES, "nothing", [OLD], ["public access block"]),
    Case("buckets-private", VIOLATES, "three of four", [OLD, closed_by("logs-1", blockPublicPolicy=False)]),
    Case("buckets-private", SATISFIES, "all four", [OLD, closed_by("logs-1")]),
    Case("buckets-private", SATISFIES, "the same, preview", [NEW, closed_by(UNKNOWN, NEW)]),
    Case("buckets-private", UNDECIDED, "unknown setting", [OLD, closed_by("logs-1", blockPublicPolicy=UNKNOWN)]),
]  # fmt: skip
REST = [
    *(Case("volumes-encrypted", VIOLATES, kind, [Made(kind, {"availabilityZone": "us-east-1a"})]) for kind in VOLUMES),
    *(Case("volumes-encrypted", SATISFIES, kind, [Made(kind, {"encrypted": True})]) for kind in VOLUMES),
    Case("volumes-encrypted", UNDECIDED, "unknown", [Made(VOLUMES[0], {"encrypted": UNKNOWN})]),
    Case("keys-rotate", VIOLATES, "not set", [Made(KEY, {"description": "secrets"})]),
    Case("keys-rotate", SATISFIES, "set", [Made(KEY, {"enableKeyRotation": True})]),
    Case("keys-rotate", SATISFIES, "a key that can't", [Made(KEY, {"customerMasterKeySpec": "RSA_2048"})]),
    Case("logs-end", VIOLATES, "for ever", [Made(LOG_GROUP, {"name": "/aws/eks/x/cluster"})]),
    Case("logs-end", VIOLATES, "zero", [Made(LOG_GROUP, {"retentionInDays": 0})]),
    Case("logs-end", SATISFIES, "a month", [Made(LOG_GROUP, {"retentionInDays": 30})]),
]


def endpoint(**network: Any) -> list[Made]:
    return [cluster(vpcConfig={"subnetIds": [UNKNOWN], **network})]


OPEN = endpoint(endpointPublicAccess=True, publicAccessCidrs=["203.0.113.0/24", "0.0.0.0/0"])
OFFICE = endpoint(endpointPublicAccess=True, publicAccessCidrs=["203.0.113.0/24"])
PRIVATE = endpoint(endpointPublicAccess=False, endpointPrivateAccess=True)
HERE, ELSEWHERE = "no-public-endpoint", "no-public-endpoint-elsewhere"
ENDPOINTS = [
    Case(HERE, VIOLATES, "EKS's default", endpoint(), ["0.0.0.0/0"], stack="prod"),
    Case(HERE, VIOLATES, "open", OPEN, ["`eks`"], stack="eu-prod"),
    Case(HERE, VIOLATES, "in halves", endpoint(publicAccessCidrs=["0.0.0.0/1", "128.0.0.0/1"]), stack="prod"),
    Case(HERE, VIOLATES, "IPv6", endpoint(publicAccessCidrs=["::/0"]), stack="prod"),
    Case(HERE, VIOLATES, "set", OPEN, stack="live", settings={"productionStacks": ["live"]}),
    Case(HERE, SATISFIES, "closed", PRIVATE, stack="prod"),
    Case(HERE, SATISFIES, "the office", OFFICE, stack="prod"),
    Case(HERE, SATISFIES, "elsewhere", OPEN, stack="dev"),
    Case(HERE, UNDECIDED, "unknown", endpoint(endpointPublicAccess=UNKNOWN), stack="prod"),
    Case(ELSEWHERE, VIOLATES, "open", OPEN, stack="dev"),
    Case(ELSEWHERE, SATISFIES, "the office", OFFICE, stack="dev"),
    Case(ELSEWHERE, SATISFIES, "production has a rule of its own", OPEN, stack="prod"),
    Case("control-plane-logs", VIOLATES, "one missing", [cluster(enabledClusterLogTypes=["api", "audit"])],
         ["authenticator"]),
    Case("control-plane-logs", VIOLATES, "none", [cluster()]),
    Case("control-plane-logs", SATISFIES, "all", [cluster(enabledClusterLogTypes=["api", "audit", "authenticator"])]),
    Case("control-plane-logs", SATISFIES, "set", [cluster(enabledClusterLogTypes=["audit"])],
         settings={"logTypes": ["audit"]}),
]  # fmt: skip
CASES = [*SECRETS, *BUCKETS, *REST, *ENDPOINTS]


@titled(CASES)
def test_data_and_cluster(case: Case) -> None:
    hold(case)
