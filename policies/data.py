"""Data at rest: secrets, buckets, volumes, keys and logs.

FSx needs no rule: AWS encrypts every FSx for Lustre file system, and so it does with log groups
(https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pulumi_policy import PolicyResource

from policies.amounts import whole, yes
from policies.cluster import CLUSTER
from policies.references import References, given
from policies.rule import Finding, Resource, Stack, resource_rule, stack_rule
from policies.unknown import independently, some

BUCKET = "aws:s3/bucket:Bucket"
BUCKET_ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
PUBLIC_ACCESS_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
VOLUMES = ("aws:ebs/volume:Volume", "aws:efs/fileSystem:FileSystem")
KEY = "aws:kms/key:Key"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"


@resource_rule(
    "secrets-encrypted", "mandatory", "The cluster's secrets, the API key among them, are encrypted with a key of yours.",
    kinds=(CLUSTER,),
    fix="set encryptionConfig.resources: [secrets] and encryptionConfig.provider.keyArn",
    source="https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html",
)  # fmt: skip
def secrets_encrypted(resource: Resource) -> Iterator[Finding]:
    """The key's ARN may be unknown in a preview: that there is one is enough."""
    config = resource.props.get("encryptionConfig") or {}
    if "secrets" not in list(config.get("resources") or []) or "provider" not in config:
        yield Finding("no encryptionConfig for secrets", "one")


@stack_rule(
    "buckets-encrypted", "mandatory", "Each bucket says how its objects are encrypted.",
    fix="add a BucketServerSideEncryptionConfiguration for the bucket",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-encryption.html",
)  # fmt: skip
def buckets_encrypted(stack: Stack) -> Iterator[Finding]:
    """S3 encrypts with its own key since 2023 whatever one says; a stated rule also holds for what comes next."""

    def encrypted(bucket: PolicyResource) -> bool:
        inline = given(bucket, "serverSideEncryptionConfiguration")
        return bool(inline) or _has(bucket, BUCKET_ENCRYPTION, stack, lambda found: bool(found.props.get("rules")))

    yield from independently(
        _unless(lambda bucket=bucket: encrypted(bucket), bucket, "no server-side encryption", "a stated one")
        for bucket in stack.of(BUCKET)
    )


@stack_rule(
    "buckets-private", "mandatory", "No bucket can be made public by a policy or an access list.",
    fix=f"add a BucketPublicAccessBlock for the bucket with {', '.join(BLOCKS)}",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html",
)  # fmt: skip
def buckets_private(stack: Stack) -> Iterator[Finding]:
    def private(bucket: PolicyResource) -> bool:
        return _has(bucket, PUBLIC_ACCESS_BLOCK, stack, lambda found: all(yes(found.props.get(b)) for b in BLOCKS))

    yield from independently(
        _unless(lambda bucket=bucket: private(bucket), bucket, "no full public access block", "all four settings on")
        for bucket in stack.of(BUCKET)
    )


def _unless(test: Callable[[], bool], bucket: PolicyResource, found: str, wanted: str) -> Iterator[Finding]:
    if not test():
        yield Finding(found, wanted, at=bucket)


def _has(bucket: PolicyResource, kind: str, stack: Stack, holds: Callable[[PolicyResource], bool]) -> bool:
    """Whether a resource of this kind is for the bucket and says what it must."""
    references = References(stack.resources, BUCKET)

    def is_for(found: PolicyResource) -> bool:
        return references.of(found, "bucket", lambda: found.props.get("bucket")).may_be(bucket) and holds(found)

    return some(lambda found=found: is_for(found) for found in stack.of(kind))


@resource_rule(
    "volumes-encrypted", "mandatory", "Volumes and file systems are encrypted.",
    kinds=VOLUMES, fix="set encrypted: true; it can't be changed later",
    source="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html; "
           "https://docs.aws.amazon.com/efs/latest/ug/encryption-at-rest.html",
)  # fmt: skip
def volumes_encrypted(resource: Resource) -> Iterator[Finding]:
    if not yes(resource.props.get("encrypted")):
        yield Finding(f"encrypted {resource.props.get('encrypted', 'not set')}", "true")


@resource_rule(
    "keys-rotate", "advisory", "KMS keys rotate.",
    kinds=(KEY,), fix="set enableKeyRotation: true",
    source="https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html",
)  # fmt: skip
def keys_rotate(resource: Resource) -> Iterator[Finding]:
    """KMS rotates symmetric encryption keys of its own key store only."""
    spec = resource.props.get("customerMasterKeySpec") or "SYMMETRIC_DEFAULT"
    if spec != "SYMMETRIC_DEFAULT" or resource.props.get("customKeyStoreId"):
        return
    if not yes(resource.props.get("enableKeyRotation")):
        yield Finding("enableKeyRotation not set", "true")


@resource_rule(
    "logs-end", "advisory", "Log groups keep what they hold for a stated time.",
    kinds=(LOG_GROUP,), fix="set retentionInDays",
    source="https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/Working-with-log-groups-and-streams.html",
)  # fmt: skip
def logs_end(resource: Resource) -> Iterator[Finding]:
    """Zero and nothing mean for ever."""
    if not whole(resource.props.get("retentionInDays")):
        yield Finding("logs that are kept for ever", "a number of days")
