"""Learning: what changes a machine's parameters."""
