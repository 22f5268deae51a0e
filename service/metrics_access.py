"""Metrics of who was let in and who was not; no label names a person or an address."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

REFUSALS = ("requests", "bytes")
FAILURES = ("unknown", "oidc", "too_many")


class AccessMetrics:
    """``token`` is a configured name, or ``oidc`` for all that an issuer signs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.failures = Counter(
            "ecntwin_authentication_failures",
            "Calls with a token that is no good, by reason (unknown, oidc, too_many: not told any more).",
            ["reason"],
            registry=registry,
        )
        self.limited = Counter(
            "ecntwin_requests_limited",
            "Calls answered 429 by the limits of their token, by token and limit (requests, bytes).",
            ["token", "limit"],
            registry=registry,
        )
        for reason in FAILURES:
            self.failures.labels(reason)
