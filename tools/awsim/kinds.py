"""Every resource kind that the stand-in provider knows, by Pulumi's type token."""

from __future__ import annotations

from tools.awsim import kinds_data, kinds_ec2, kinds_eks, kinds_eks_access, kinds_iam, kinds_lb, kinds_network, kinds_s3
from tools.awsim.kind import Kind

MODULES = (kinds_network, kinds_ec2, kinds_eks, kinds_eks_access, kinds_iam, kinds_data, kinds_lb, kinds_s3)
KINDS: dict[str, Kind] = {kind.token: kind() for module in MODULES for kind in module.KINDS}
