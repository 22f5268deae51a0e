"""Whether what telemetry sees after a change is worse than it may be: sentences, or none. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from switches.rollout.plan import Figures, Limits

QUEUE_OFFSET_BYTES = 10_000.0  # ten packets or so: below that a factor is noise
DROPS_FACTOR = 1.5
PFC_FRAMES_OFFSET_PER_S = 100.0


def breaches(now: Figures, before: Figures, predicted: Figures, limits: Limits) -> Iterator[str]:
    """A sentence for each guard that ``now`` breaches; a figure that is not reported breaches none."""
    if now.pause_share is not None:
        was = before.pause_share or 0.0
        if now.pause_share > was + limits.pause_share:
            yield (
                f"ports spend {now.pause_share:.2%} of their time paused by PFC, {was:.2%} before; "
                f"it may grow by {limits.pause_share:.2%}"
            )
    elif now.pfc_frames_per_s is not None:
        was = before.pfc_frames_per_s or 0.0
        if now.pfc_frames_per_s > limits.queue_factor * was + PFC_FRAMES_OFFSET_PER_S:
            yield f"{now.pfc_frames_per_s:.4g} PFC frames a second are sent, {was:.4g} before"
    if now.drops_per_s is not None:
        was = before.drops_per_s or 0.0
        if now.drops_per_s > DROPS_FACTOR * was + limits.drops_per_s:
            yield f"{now.drops_per_s:.4g} packets a second are dropped, {was:.4g} before"
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
