"""A kernel is compiled once: parameters given as whole numbers, fractions or null are one type to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from numba import typeof

from twin.replay.plan import compile_params
from twin.senders.dcqcn import PAPER, PRESETS, DcqcnParams

WHOLE = replace(PAPER, initial_alpha=1, byte_counter_bytes=10_000_000, min_rate_bytes_per_s=0)
NO_COUNTER = replace(PAPER, byte_counter_bytes=None)


@pytest.mark.parametrize("params", [*PRESETS.values(), WHOLE, NO_COUNTER])
def test_parameters_are_one_type_to_the_replay(params: DcqcnParams) -> None:
    as_from_a_file = replace(PAPER, byte_counter_bytes=1e7)
    assert typeof(compile_params(params, 2e-6)) == typeof(compile_params(as_from_a_file, 2e-6))
