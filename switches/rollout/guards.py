"""Guards: whether telemetry after a change is worse than the limits allow."""

from __future__ import annotations

from collections.abc import Iterator

from switches.rollout.plan import Figures, Limits

QUEUE_OFFSET_BYTES = 10_000.0  # ten packets or so: below that a factor is noise
COUNTED_FACTOR = 1.5  # counts over a short window scatter


def breaches(now: Figures, before: Figures, predicted: Figures, limits: Limits) -> Iterator[str]:
    """A sentence for each guard that ``now`` breaches; a figure that is not reported breaches none."""
    if now.pause_share is not None:
        was = before.pause_share or 0.0
        if now.pause_share > was + limits.pause_share:
            yield (
                f"ports spend {now.pause_share:.2%} of their time paused by PFC, {was:.2%} before; "
                f"it may grow by {limits.pause_share:.2%}"
            )
    counted = (
        (
            "PFC frames a second are sent",
            now.pfc_frames_per_s,
            before.pfc_frames_per_s,
            limits.pfc_frames_per_s,
        ),
        ("packets a second are dropped", now.drops_per_s, before.drops_per_s, limits.drops_per_s),
    )
    for what, is_now, reported_before, growth in counted:
        was = reported_before or 0.0
        if is_now is not None and is_now > COUNTED_FACTOR * was + growth:
            yield f"{is_now:.4g} {what}, {was:.4g} before; {COUNTED_FACTOR * was + growth:.4g} are allowed"
    if now.queue_mean_bytes is not None:
        expected = max(before.queue_mean_bytes or 0.0, predicted.queue_mean_bytes or 0.0)
        if expected > 0 and now.queue_mean_bytes > limits.queue_factor * expected + QUEUE_OFFSET_BYTES:
            yield (
                f"the mean queue is {now.queue_mean_bytes:,.0f} B, above {limits.queue_factor:g} times "
                f"the larger of before ({before.queue_mean_bytes or 0:,.0f} B) "
                f"and predicted ({predicted.queue_mean_bytes or 0:,.0f} B)"
            )
    if now.throughput_bytes_per_s is not None and before.throughput_bytes_per_s:
        share = now.throughput_bytes_per_s / before.throughput_bytes_per_s
        if share < limits.throughput_share:
            yield f"throughput is {share:.0%} of before; at least {limits.throughput_share:.0%} is wanted"
