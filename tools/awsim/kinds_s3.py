"""S3 buckets and what is configured on them by resources of their own."""

from __future__ import annotations

import json
from typing import Any

from tools.awsim.asking import Aws
from tools.awsim.kind import Kind
from tools.awsim.kinds_iam import document
from tools.awsim.properties import Properties
from tools.awsim.tagging import Tagging, Tags, as_list, from_list

S3 = "s3"


def _change_tags(aws: Any, bucket: str, to_set: Tags, to_remove: list[str]) -> None:
    """S3 replaces all tags at once."""
    known = aws.found(S3, "GetBucketTagging", Bucket=bucket)
    tags = {k: v for k, v in from_list((known or {}).get("TagSet")).items() if k not in to_remove} | to_set
    if tags:
        aws.call(S3, "PutBucketTagging", Bucket=bucket, Tagging={"TagSet": as_list(tags)})
    else:
        aws.call(S3, "DeleteBucketTagging", Bucket=bucket)


class Bucket(Kind):
    """Without the deprecated inline settings."""

    token = "aws:s3/bucket:Bucket"
    service, create_action = S3, "CreateBucket"
    aside = frozenset({"forceDestroy"})
    renames = {"objectLockEnabled": "ObjectLockEnabledForBucket"}
    forces_new = frozenset({"bucket", "bucketPrefix", "objectLockEnabled"})
    computed = ("arn", "bucket", "bucketDomainName", "bucketRegionalDomainName", "bucketRegion", "hostedZoneId")
    told = ("bucket",)
    name_input, prefix_input, name_length = "bucket", "bucketPrefix", 63
    tagging = Tagging(lambda tags: {}, _change_tags)

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return inputs["bucket"]

    def create(self, aws: Aws, inputs: Properties) -> str:
        place = {} if aws.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": aws.region}}
        aws.call(S3, "CreateBucket", **self.parameters(inputs), **place)
        return inputs["bucket"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        if inputs.get("tags"):
            _change_tags(aws, resource, inputs["tags"], [])

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        if not _exists(aws, resource):
            return None
        tags = aws.found(S3, "GetBucketTagging", Bucket=resource)
        return {"bucket": resource, "arn": f"arn:aws:s3:::{resource}", "bucketRegion": aws.region,
                "bucketDomainName": f"{resource}.s3.amazonaws.com", "hostedZoneId": "Z3AQBSTGFYJSTF",
                "bucketRegionalDomainName": f"{resource}.s3.{aws.region}.amazonaws.com",
                "tags": from_list((tags or {}).get("TagSet"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        if state.get("forceDestroy") and _exists(aws, resource):
            listed = aws.call(S3, "ListObjectVersions", Bucket=resource)
            for found in [*listed.get("Versions", []), *listed.get("DeleteMarkers", [])]:
                aws.call(S3, "DeleteObject", Bucket=resource, Key=found["Key"], VersionId=found["VersionId"])
        aws.remove(S3, "DeleteBucket", Bucket=resource)


def _exists(aws: Aws, bucket: str) -> bool:
    return any(found["Name"] == bucket for found in aws.call(S3, "ListBuckets")["Buckets"])


class BucketPolicy(Kind):
    token = "aws:s3/bucketPolicy:BucketPolicy"
    service, create_action = S3, "PutBucketPolicy"
    forces_new = frozenset({"bucket"})
    told = ("bucket", "policy")

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        return {**given, "policy": document(given.get("policy"))}

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return inputs["bucket"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        aws.call(S3, "PutBucketPolicy", **self.parameters(new))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(S3, "GetBucketPolicy", Bucket=resource)
        return answer and {"bucket": resource, "policy": json.dumps(json.loads(answer["Policy"]))}

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(S3, "DeleteBucketPolicy", Bucket=resource)


class Setting(Kind):
    """A bucket's setting that one call writes whole, one reads and one takes away."""

    service = S3
    member: str
    """The parameter that holds the setting; also the answer's, but for lifecycles."""
    get_action: str
    delete_action: str
    forces_new = frozenset({"bucket", "expectedBucketOwner"})
    keys: tuple[str, ...] = ()
    told = ("bucket",)

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        place = {key: given.pop(key) for key in ("bucket", "expectedBucketOwner") if key in given}
        return {**place, self.member: given}

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return inputs["bucket"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        aws.call(S3, self.create_action, **self.parameters(new))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(S3, self.get_action, Bucket=resource)
        return None if answer is None else {"bucket": resource, **self.setting(answer)}

    def setting(self, answer: dict[str, Any]) -> Properties:
        """What of the setting a refresh compares."""
        return {}

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(S3, self.delete_action, Bucket=resource)


class PublicAccessBlock(Setting):
    token = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    create_action, get_action, delete_action = "PutPublicAccessBlock", "GetPublicAccessBlock", "DeletePublicAccessBlock"
    member = "PublicAccessBlockConfiguration"
    forces_new = frozenset({"bucket"})
    aside = frozenset({"skipDestroy"})
    told = ("bucket", "blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")

    def setting(self, answer: dict[str, Any]) -> Properties:
        found = answer[self.member]
        return {key: found.get(key[0].upper() + key[1:], False) for key in self.told[1:]}


class Encryption(Setting):
    token = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    create_action, get_action, delete_action = "PutBucketEncryption", "GetBucketEncryption", "DeleteBucketEncryption"
    member = "ServerSideEncryptionConfiguration"
    renames = {f"{member}.rules.applyServerSideEncryptionByDefault.kmsMasterKeyId": "KMSMasterKeyID"}
    told = ("bucket", "rules")

    def setting(self, answer: dict[str, Any]) -> Properties:
        rules = []
        for rule in answer[self.member]["Rules"]:
            default = rule.get("ApplyServerSideEncryptionByDefault", {})
            chosen = {"sseAlgorithm": default.get("SSEAlgorithm"), "kmsMasterKeyId": default.get("KMSMasterKeyID")}
            rules.append({"applyServerSideEncryptionByDefault": {k: v for k, v in chosen.items() if v is not None},
                          "bucketKeyEnabled": rule.get("BucketKeyEnabled", False)})  # fmt: skip
        return {"rules": rules}


class Lifecycle(Setting):
    token = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    create_action = "PutBucketLifecycleConfiguration"
    get_action, delete_action = "GetBucketLifecycleConfiguration", "DeleteBucketLifecycle"
    member = "LifecycleConfiguration"
    aside = frozenset({"transitionDefaultMinimumObjectSize"})

    def check(self, inputs: Properties) -> list[str]:
        """S3 wants a filter or a prefix in each rule; botocore's model leaves both optional."""
        rules = inputs.get("rules")
        given = [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
        without = [rule.get("id") for rule in given if not rule.keys() & {"filter", "prefix"}]
        return [*(f"rule {name}: needs a filter" for name in without), *super().check(inputs)]


KINDS = (Bucket, BucketPolicy, PublicAccessBlock, Encryption, Lifecycle)
