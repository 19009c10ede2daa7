"""What moves the KV cache: one profile a connector, and what vLLM is told of it. Pure."""
