"""The policy pack: names its rules, nothing else. The rules are in files by subject."""

from pulumi_policy import PolicyPack

from policies.pods import NO_PRIVILEGED_PODS

PolicyPack("splitserve", [NO_PRIVILEGED_PODS])
