"""The policy pack: names its rules, nothing else. The rules are in files by subject."""

from pulumi_policy import EnforcementLevel, PolicyPack

from policies.all_rules import rules

PolicyPack("splitserve", [rule.policy for rule in rules()], EnforcementLevel.MANDATORY)
