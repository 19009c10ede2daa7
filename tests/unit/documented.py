"""What proves each shell command of README and tutorial: a test that does it, a run here, or a need that is said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ByTest:
    """`name` is `file::function`, whose text with its decorators holds `holds`: it does what the command does."""

    name: str
    holds: str


@dataclass(frozen=True)
class Run:
    """Run by test_docs_run.py, and ends with `code`."""

    code: int = 0


@dataclass(frozen=True)
class StandIn:
    """Run by test_docs_run.py against a stand-in of `pulumi` and of the endpoint."""


@dataclass(frozen=True)
class Needs:
    """Run by no test: `what` it needs, and why the tests do without it."""

    what: str


Proof = ByTest | Run | StandIn | Needs

RELEASES = "tests/cluster/test_releases.py::"
CLUSTER = "the local cluster, which the cluster tests find running: they start it by `make start`"
BAD = f"{RELEASES}test_a_bad_candidate_is_taken_back_without_a_failed_request"
PROOFS: dict[str, Proof] = {
    "make up": Needs(f"{CLUSTER}; its `pulumi up` and its answer are test_a_first_release_is_measured_and_goes_live"),
    "make test": ByTest(".ci/run", "exec make test"),
    "make demo-slow-link": ByTest(BAD, '"slow-link"'),
    "make demo-silent": ByTest(BAD, '"silent"'),
    "make demo-never-ready": ByTest(BAD, '"never-ready"'),
    "make demo-cannot-measure": ByTest(BAD, '"cannot-measure"'),
    "make down": Needs(CLUSTER),
    "make clean": Needs(CLUSTER),
    "make up-aws-sim": ByTest(
        "tests/cluster/test_aws_stand_in.py::test_other_nodes_are_built_beside_the_live_ones_and_take_over", "stack"
    ),
    'eval "$(make -s env)"': ByTest("tests/cluster/conftest.py::deployment", "full_environment(cache())"),
    "pulumi preview --stack local --policy-pack policies": ByTest(
        f"{RELEASES}test_a_preview_with_the_policy_pack_finds_nothing_to_change_or_to_object_to", "--policy-pack"
    ),
    "pulumi up --stack local": ByTest(f"{RELEASES}test_a_first_release_is_measured_and_goes_live", "deployment.up()"),
    "pulumi stack output lastUpdate --json --stack local": StandIn(),
    "pulumi stack output gate --json --stack local": StandIn(),
    "pulumi stack output ledger --json --stack local": StandIn(),
    "splitserve status": StandIn(),
    'splitserve ask "Say hello."': StandIn(),
    "endpoint=$(pulumi stack output endpoint --stack local)": StandIn(),
    "curl": StandIn(),
    "splitserve check": ByTest(
        "tests/cluster/test_releases_checked.py::test_without_the_model_bytes_are_held_against_each_other",
        "by_pods(live)",
    ),
    "git checkout stacks/Pulumi.local.yaml": Needs("a checkout that somebody changed"),
}
"""By the line; a command with long arguments by its first words."""
CODES = {
    "splitserve expect --model llama-3.1-70b --instance p4d.24xlarge --prompt-tokens 8192": 1,
    "splitserve expect --model llama-3.1-70b --instance p5.48xlarge --prompt-tokens 8192 --block-size 16": 1,
}
"""Exit codes of commands that answer no."""
ELSEWHERE = ("--listed", "path/to/", "stacks/schema.json")
"""In commands that ask AWS, are examples of a form, or write into the checkout."""


def proof_of(line: str) -> Proof | None:
    """What proves a line, by the longest key that it begins with."""
    if line in PROOFS:
        return PROOFS[line]
    if is_planning(line):
        return Run(CODES.get(line, 0))
    keys = [key for key in PROOFS if " " not in key or key == "splitserve check"]
    return next((PROOFS[key] for key in keys if line.startswith(f"{key} ")), None)


PLANNING = ("expect", "advise", "report", "alerts", "dashboard", "schema", "rules", "settings", "outputs", "prices")


def is_planning(line: str) -> bool:
    """Whether it needs neither a cloud nor a cluster."""
    words = line.split()
    return words[0] == "splitserve" and words[1] in PLANNING and not any(mark in line for mark in ELSEWHERE)
