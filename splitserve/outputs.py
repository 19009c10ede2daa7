"""Read another stack's outputs, in a Pulumi program or from plain data.

    from splitserve.outputs import read

    llm = await read("organization/splitserve/prod")
    llm.endpoint, llm.model, llm.live.kv_transfer_aged_ms

A program without `async` takes `pulumi.Output.from_input(read("…")).apply(…)`. Needs nothing but `pulumi`, and
`parse` and `parse_json` not even that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from splitserve.contract import SECRET
from splitserve.fault import OutputsError
from splitserve.parse import CHECK_NAME, parse, parse_json
from splitserve.stack_outputs import Cluster, LastUpdate, Live, Outcome, Outputs, SecretReference

if TYPE_CHECKING:  # plain data is read without the SDK
    import pulumi

__all__ = [
    "Cluster", "LastUpdate", "Live", "Outcome", "Outputs", "OutputsError", "SecretReference", "parse", "parse_json",
    "read",
]  # fmt: skip


async def read(stack: str | pulumi.StackReference) -> Outputs:
    """The outputs of a stack by its full name, `organization/splitserve/STACK`, or by a stack reference.

    Raises OutputsError as `parse` does, and for a name of a stack that is not there or can't be read; a stack
    reference to such a stack ends the program within the engine.
    """
    import pulumi

    if isinstance(stack, str):
        await _ask(stack)
        stack = pulumi.StackReference(stack)
    where = str(await stack.name.future())
    return parse(await _plain(stack), where)


async def _ask(stack: str) -> None:
    """Raise OutputsError where the stack can't be read.

    A stack reference to a stack that is not there ends the whole program within the engine (pulumi 3.274); the
    engine's own function that it calls answers with an error that can be caught.
    """
    import pulumi

    try:
        await pulumi.runtime.invoke_async("pulumi:pulumi:readStackOutputs", {"name": stack})
    except Exception as error:  # the SDK raises nothing narrower
        found = str(error).rpartition("returned an error: ")[2]
        raise OutputsError("unreadable", stack, found, "a stack that is there and may be read", CHECK_NAME) from None


async def _plain(reference: pulumi.StackReference) -> dict[str, Any]:
    """As `pulumi stack output --json` has them: a secret is only said to be one."""
    values = await reference.outputs.future() or {}
    secret = await reference.secret_output_names.future() or []
    return {name: SECRET if name in secret else value for name, value in values.items()}
