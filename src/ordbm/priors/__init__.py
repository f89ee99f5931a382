"""What the ratings tell of parameters beforehand."""
