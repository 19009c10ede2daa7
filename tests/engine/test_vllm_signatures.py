"""Every signature of a fault stands in the files of vLLM's environment as it is said to be printed."""

from __future__ import annotations

import pytest

from components.diagnosis.signature import Signature
from components.diagnosis.signatures import SIGNATURES
from tools.cache import cache


@pytest.mark.parametrize("signature", [s for s in SIGNATURES if s.file], ids=lambda signature: signature.key)
def test_it_is_what_this_version_prints(signature: Signature) -> None:
    content = (cache().layout().vllm / str(signature.file)).read_bytes()
    assert (signature.stands or signature.text).encode() in content
