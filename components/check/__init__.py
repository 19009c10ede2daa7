"""Point the gate's probe at a vLLM deployment that is not ours: any prefill and decode engines by URL."""
