"""The package of Pulumi: what programs in other languages use splitserve by."""
