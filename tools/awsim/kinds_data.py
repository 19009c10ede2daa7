"""KMS keys, CloudWatch log groups and FSx for Lustre."""

from __future__ import annotations

from typing import Any

from tools.awsim.asking import Aws, AwsError, wait
from tools.awsim.kind import Kind, changed
from tools.awsim.kinds_iam import document
from tools.awsim.properties import Properties, same
from tools.awsim.tagging import call_tagging, from_list, own

KMS, LOGS, FSX = "kms", "logs", "fsx"


class Key(Kind):
    token = "aws:kms/key:Key"
    service, create_action = KMS, "CreateKey"
    renames = {"customerMasterKeySpec": "KeySpec"}
    aside = frozenset({"enableKeyRotation", "deletionWindowInDays", "isEnabled", "rotationPeriodInDays"})
    forces_new = frozenset({"customKeyStoreId", "customerMasterKeySpec", "keyUsage", "multiRegion"})
    computed = ("arn", "keyId", "policy", "multiRegion")
    defaults = {"keyUsage": "ENCRYPT_DECRYPT", "enableKeyRotation": False, "isEnabled": True, "multiRegion": False}
    told = ("description", "keyUsage", "enableKeyRotation", "policy")
    tagging = call_tagging(KMS, "TagResource", "UntagResource", "KeyId", "TagKeys", form="kms")

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        return {**given, "policy": document(given["policy"])} if "policy" in given else given

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["KeyMetadata"]["KeyId"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        if inputs.get("enableKeyRotation"):
            days = inputs.get("rotationPeriodInDays")
            aws.call(KMS, "EnableKeyRotation", KeyId=resource, RotationPeriodInDays=days)
        if inputs.get("isEnabled") is False:
            aws.call(KMS, "DisableKey", KeyId=resource)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        if changed(old, new, "description"):
            aws.call(KMS, "UpdateKeyDescription", KeyId=resource, Description=new.get("description", ""))
        if "policy" in new and not same(old.get("policy"), new["policy"]):
            aws.call(KMS, "PutKeyPolicy", KeyId=resource, PolicyName="default", Policy=document(new["policy"]))
        if changed(old, new, "enableKeyRotation", "rotationPeriodInDays"):
            if new.get("enableKeyRotation"):
                self.settle(aws, resource, {**new, "isEnabled": True})
            else:
                aws.call(KMS, "DisableKeyRotation", KeyId=resource)
        if changed(old, new, "isEnabled"):
            aws.call(KMS, "EnableKey" if new.get("isEnabled", True) else "DisableKey", KeyId=resource)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(KMS, "DescribeKey", KeyId=resource)
        if answer is None or answer["KeyMetadata"]["KeyState"] == "PendingDeletion":
            return None
        key = answer["KeyMetadata"]
        tags = aws.call(KMS, "ListResourceTags", KeyId=resource).get("Tags")
        return {
            "arn": key["Arn"], "keyId": key["KeyId"], "description": key.get("Description") or None,
            "keyUsage": key.get("KeyUsage"), "isEnabled": key["Enabled"], "multiRegion": key.get("MultiRegion", False),
            "enableKeyRotation": aws.call(KMS, "GetKeyRotationStatus", KeyId=resource)["KeyRotationEnabled"],
            "policy": aws.call(KMS, "GetKeyPolicy", KeyId=resource, PolicyName="default")["Policy"],
            "tags": from_list(tags, "TagKey", "TagValue"),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        """Keys are never deleted at once: they are scheduled."""
        if self.read(aws, resource, state):
            days = state.get("deletionWindowInDays", 30)
            aws.remove(KMS, "ScheduleKeyDeletion", KeyId=resource, PendingWindowInDays=days)


class Alias(Kind):
    token = "aws:kms/alias:Alias"
    service, create_action = KMS, "CreateAlias"
    renames = {"name": "AliasName"}
    forces_new = frozenset({"name", "namePrefix"})
    computed = ("arn", "targetKeyArn", "name")
    told = ("name", "targetKeyId")
    name_input, prefix_input = "name", "namePrefix"

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return inputs["name"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        aws.call(KMS, "UpdateAlias", AliasName=resource, TargetKeyId=new["targetKeyId"])

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        for alias in aws.call(KMS, "ListAliases")["Aliases"]:
            if alias["AliasName"] == resource and "TargetKeyId" in alias:
                key = aws.call(KMS, "DescribeKey", KeyId=alias["TargetKeyId"])["KeyMetadata"]
                wanted = known.get("targetKeyId")
                target = wanted if wanted in (key["KeyId"], key["Arn"]) else key["KeyId"]
                return {"name": resource, "arn": alias["AliasArn"], "targetKeyId": target, "targetKeyArn": key["Arn"]}
        return None

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(KMS, "DeleteAlias", AliasName=resource)


class LogGroup(Kind):
    token = "aws:cloudwatch/logGroup:LogGroup"
    service, create_action = LOGS, "CreateLogGroup"
    renames = {"name": "logGroupName"}
    aside = frozenset({"retentionInDays", "skipDestroy"})
    forces_new = frozenset({"name", "namePrefix", "logGroupClass"})
    computed = ("arn", "name", "logGroupClass")
    defaults = {"retentionInDays": 0, "logGroupClass": "STANDARD"}
    told = ("name", "retentionInDays", "kmsKeyId")
    name_input, prefix_input, name_length = "name", "namePrefix", 512
    tagging = call_tagging(LOGS, "TagResource", "UntagResource", "resourceArn", "tagKeys", tags="tags", form="map")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return inputs["name"]

    def tagged(self, resource: str, state: Properties) -> str:
        return state["arn"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        if inputs.get("retentionInDays"):
            days = inputs["retentionInDays"]
            aws.call(LOGS, "PutRetentionPolicy", logGroupName=resource, retentionInDays=days)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        if changed(old, new, "retentionInDays"):
            if new.get("retentionInDays"):
                self.settle(aws, resource, new)
            else:
                aws.call(LOGS, "DeleteRetentionPolicy", logGroupName=resource)
        if changed(old, new, "kmsKeyId"):
            if "kmsKeyId" in new:
                aws.call(LOGS, "AssociateKmsKey", logGroupName=resource, kmsKeyId=new["kmsKeyId"])
            else:
                aws.call(LOGS, "DisassociateKmsKey", logGroupName=resource)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        for group in aws.call(LOGS, "DescribeLogGroups", logGroupNamePrefix=resource)["logGroups"]:
            if group["logGroupName"] == resource:
                arn = group["arn"].removesuffix(":*")
                tags = aws.call(LOGS, "ListTagsForResource", resourceArn=arn).get("tags")
                return {"name": resource, "arn": arn, "retentionInDays": group.get("retentionInDays", 0),
                        "kmsKeyId": group.get("kmsKeyId"), "tags": own(tags)}  # fmt: skip
        return None

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        if not state.get("skipDestroy"):
            aws.remove(LOGS, "DeleteLogGroup", logGroupName=resource)


class Lustre(Kind):
    """The Lustre options are flat in Pulumi and one object in the API. moto can't change a file system."""

    token = "aws:fsx/lustreFileSystem:LustreFileSystem"
    service, create_action = FSX, "CreateFileSystem"
    TOP = frozenset({"subnetIds", "securityGroupIds", "storageCapacity", "storageType", "kmsKeyId",
                     "fileSystemTypeVersion"})  # fmt: skip
    renames = {"LustreConfiguration.rootSquashConfiguration.rootSquash": "RootSquash"}
    aside = frozenset({"skipFinalBackup", "finalBackupTags", "backupId", "importPath", "exportPath"})
    forces_new = frozenset({
        "subnetIds", "securityGroupIds", "deploymentType", "storageType", "kmsKeyId", "driveCacheType", "efaEnabled",
        "copyTagsToBackups", "importPath", "exportPath", "importedFileChunkSize", "fileSystemTypeVersion", "backupId",
    })  # fmt: skip
    computed = ("arn", "dnsName", "mountName", "networkInterfaceIds", "ownerId", "vpcId", "kmsKeyId")
    told = ("subnetIds", "storageCapacity", "storageType", "deploymentType", "perUnitStorageThroughput")
    tagging = call_tagging(FSX, "TagResource", "UntagResource", "ResourceARN", "TagKeys")

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        top = {key: value for key, value in given.items() if key in self.TOP}
        options = {key: value for key, value in given.items() if key not in self.TOP}
        return {"FileSystemType": "LUSTRE", **top, "LustreConfiguration": options}

    def check(self, inputs: Properties) -> list[str]:
        unsupported = [key for key in ("backupId", "importPath", "exportPath") if key in inputs]
        return [*(f"{key}: the stand-in does not know it" for key in unsupported), *super().check(inputs)]

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["FileSystem"]["FileSystemId"]

    def tagged(self, resource: str, state: Properties) -> str:
        return state["arn"]

    def _find(self, aws: Aws, resource: str) -> dict[str, Any] | None:
        answer = aws.found(FSX, "DescribeFileSystems", FileSystemIds=[resource])
        systems = [s for s in (answer or {}).get("FileSystems", []) if s["FileSystemId"] == resource]
        return systems[0] if systems and systems[0].get("Lifecycle") != "DELETING" else None

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        def state() -> str:
            return (self._find(aws, resource) or {}).get("Lifecycle", "")

        wait(f"FSx file system {resource}", state, "AVAILABLE", ("FAILED", ""))

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        hidden = {"tags", "skipFinalBackup", "finalBackupTags"}
        if any(old.get(key) != new.get(key) for key in (old.keys() | new.keys()) - hidden):
            raise AwsError("the stand-in does not change a file system in place")

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        found = self._find(aws, resource)
        if found is None:
            return None
        lustre = found.get("LustreConfiguration", {})
        keys = {"deploymentType": "DeploymentType", "perUnitStorageThroughput": "PerUnitStorageThroughput",
                "dataCompressionType": "DataCompressionType", "mountName": "MountName"}  # fmt: skip
        return {
            "arn": found["ResourceARN"], "dnsName": found.get("DNSName") or f"{resource}.fsx.{aws.region}.amazonaws.com",
            "storageCapacity": found.get("StorageCapacity"), "storageType": found.get("StorageType"),
            "vpcId": found.get("VpcId"), "ownerId": found.get("OwnerId"), "kmsKeyId": found.get("KmsKeyId"),
            "subnetIds": (found.get("SubnetIds") or [None])[0], "networkInterfaceIds": [],
            **{key: lustre[name] for key, name in keys.items() if lustre.get(name) is not None},
            "tags": from_list(found.get("Tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(FSX, "DeleteFileSystem", FileSystemId=resource)
        wait(f"FSx file system {resource}", lambda: "there" if self._find(aws, resource) else "gone", "gone")


KINDS = (Key, Alias, LogGroup, Lustre)
