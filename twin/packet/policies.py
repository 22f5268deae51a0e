"""Policies of senders (``twin.senders.rtt``) as the arrays that kernels take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypedDict

import numpy as np

from twin.packet import layout
from twin.packet.layout import NODE_NUMBERS, Floats, Record, Table
from twin.senders.rtt import INPUTS, DeccPolicy, Network, RttSender, Rule, Swift, Trees

DECISION = ("flow", "time_s", "action", "inflation", *INPUTS)
"""Columns of a decision that a fabric keeps; the inputs are those of its sender."""


class PolicyTables(TypedDict):
    policies: Table
    numbers: Floats
    scratch: Floats


def policy_tables(senders: Sequence[RttSender], packet_wire_bytes: int) -> PolicyTables:
    """A row for each sender, the numbers of networks and trees, and room to evaluate them."""
    table = np.zeros(len(senders), dtype=layout.POLICY)
    numbers: list[float] = []
    widest = len(INPUTS)
    for row, sender in zip(table, senders, strict=True):
        row["decision"], row["packet"] = sender.decision_s, packet_wire_bytes
        if isinstance(sender, Swift):
            _set_swift(row, sender)
            continue
        if isinstance(sender, DeccPolicy):
            row["by_window"], row["step"], row["explore"] = 1, 0.5 * sender.alpha, sender.explore
        else:
            for name in ("beta", "target", "scale", "step"):
                row[name] = getattr(sender, name)
        row["inputs"], row["first"] = len(sender.inputs), len(numbers)
        widest = max(widest, len(sender.inputs))
        match sender.form:
            case Rule(width=width):
                row["kind"], row["width"] = layout.BY_RULE, width
            case Network(layers=layers):
                row["kind"], row["count"] = layout.BY_NETWORK, len(layers)
                widest = max(widest, *map(len, layers))
                numbers += _of_layers(sender.form.weights)
            case Trees(trees=trees, base=base):
                row["kind"], row["count"], row["base"] = layout.BY_TREES, len(trees), base
                numbers += _of_trees(sender.form, len(numbers))
    return PolicyTables(
        policies=table, numbers=np.array(numbers or [0.0], np.float64), scratch=np.zeros((3, widest))
    )


def _set_swift(row: Record, sender: Swift) -> None:
    row["kind"] = layout.BY_SWIFT
    for name in ("base_rtts", "window_low", "increase", "decrease", "largest_cut"):
        row[name] = getattr(sender, name)
    row["hop"], row["range"] = sender.hop_s, sender.range_s
    # Equation 2 of section 3.5: the whole range at the smallest window, none from the largest on.
    low, high = 1 / math.sqrt(sender.window_low), 1 / math.sqrt(sender.window_high)
    row["flow_scale"] = sender.range_s / (low - high)
    row["flow_base"] = -row["flow_scale"] * high


def _of_layers(layers: Iterable[Sequence[Sequence[float]]]) -> list[float]:
    found: list[float] = []
    for layer in layers:
        found.append(len(layer))
        for row in layer:
            kept = [number for at, weight in enumerate(row) if weight != 0.0 for number in (at, weight)]
            found += [len(kept), *kept]
    return found


def _of_trees(form: Trees, first: int) -> list[float]:
    roots: list[float] = []
    nodes: list[float] = []
    begin = first + len(form.trees)
    for tree in form.trees:
        root = begin + len(nodes)
        roots.append(root)
        for node in tree:
            at = [root + NODE_NUMBERS * child for child in (node.left, node.right)]
            nodes += [node.feature, node.value, *at]
    return roots + nodes
