"""Lists of items: candidates, criteria, the best n."""
