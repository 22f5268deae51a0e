"""Speeds of what takes telemetry in."""
