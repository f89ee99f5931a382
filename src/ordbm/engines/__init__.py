"""Where learning is done: workers in this process, or on a Ray cluster."""
