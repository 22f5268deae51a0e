"""Elephants, potential elephants and mice."""

from __future__ import annotations

import numpy as np

from telemetry.network.assemble import classify, dominant_class
from telemetry.state import FlowClass


def test_size_decides_first_then_persistence() -> None:
    classes = classify(
        np.array([1e6, 999_999.0, 999_999.0, 5e9]),
        np.array([1, 10, 9, 10]),
        n_periods=10,
        elephant_bytes=1e6,
    )
    assert [FlowClass(c).label for c in classes] == ["elephant", "potential_elephant", "mouse", "elephant"]


def test_one_period_says_nothing_about_persistence() -> None:
    classes = classify(np.array([10.0]), np.array([1]), n_periods=1, elephant_bytes=1e6)
    assert classes.tolist() == [FlowClass.MOUSE]


def test_the_dominant_class_carries_most_bytes() -> None:
    assert dominant_class({FlowClass.MOUSE: 3.0, FlowClass.ELEPHANT: 2.0}) is FlowClass.MOUSE
    assert dominant_class({FlowClass.MOUSE: 3.0, FlowClass.ELEPHANT: 3.0}) is FlowClass.ELEPHANT
    assert dominant_class({FlowClass.POTENTIAL_ELEPHANT: 1.0}) is FlowClass.POTENTIAL_ELEPHANT
