"""Formats bytes, durations and changes for people."""

from __future__ import annotations

import math


def bytes_text(value: float) -> str:
    """Three significant digits in B, KB, MB or GB (powers of ten, as switches are configured)."""
    return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")))


def duration_text(value_s: float) -> str:
    """Three significant digits in s, ms or µs."""
    return _scaled(value_s, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")))


def percent_text(ratio: float) -> str:
    """A ratio as percent: 0.0125 is 1.25 %."""
    return f"{100 * ratio:.3g} %"


def change_text(relative: float) -> str:
    """A relative change with its sign in whole percent: −0.52 is −52 %."""
    return f"{100 * relative:+.0f} %".replace("-", "−")


def gain_text(gain: float, error: float | None) -> str:
    """A gain with its standard error in percent, such as ``8.1 ± 1.9 %``."""
    if error is None or not math.isfinite(error):
        return f"{_percent(gain)} %"
    return f"{_percent(gain)} ± {_percent(error)} %"


def _percent(value: float) -> str:
    digits = 1 if abs(value) < 0.0995 else 0
    return f"{100 * value:.{digits}f}".replace("-", "−")


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    for scale, unit in units:
        # Half a digit early, so that 999 999 B reads 1 MB and not 1e+03 KB.
        if abs(value) >= scale * 0.9995:
            return f"{float(f'{value / scale:.3g}'):g} {unit}"
    scale, unit = units[-1]
    return f"{float(f'{value / scale:.3g}'):g} {unit}"
