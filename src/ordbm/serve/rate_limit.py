"""How often a client may ask: a bucket of tokens each, as many buckets as fit."""

from __future__ import annotations

import math
import time
from collections import OrderedDict

MOST_CLIENTS = 10_000
BURST = 2.0  # seconds' worth of requests that may come at once


class RateLimit:
    """`rate` requests a second for each client; the longest unseen is forgotten first."""

    def __init__(self, rate: float) -> None:
        self._rate, self._burst = rate, max(1.0, rate * BURST)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> int:
        """Zero if the client may ask now, or after how many whole seconds."""
        if not self._rate:
            return 0
        now = time.monotonic()
        tokens, then = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        allowed = tokens >= 1.0
        self._buckets[client] = (tokens - allowed, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0 if allowed else math.ceil((1.0 - tokens) / self._rate)
