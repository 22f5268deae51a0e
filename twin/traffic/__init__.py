"""Flows to offer to a packet-level fabric: size distributions, arrival patterns, their changes over time.

Pure functions of their arguments and a seed; imports only numpy and twin's errors.
"""
