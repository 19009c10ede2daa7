"""The `splitserve` commands, one subject a file."""
