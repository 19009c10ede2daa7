"""A stand-in for AWS: moto's server with what it lacks, and a `pulumi-resource-aws` that talks to it.

For tests and demonstrations only. A deployment to AWS uses Pulumi's own provider.
"""
