"""Flows to offer to a packet-level fabric: size distributions, arrival patterns, their changes over time."""
