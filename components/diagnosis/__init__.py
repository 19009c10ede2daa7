"""What logs and events say of a verdict: from a line that somebody printed to what it means and the way out. Pure."""
