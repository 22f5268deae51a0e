"""Rollouts in the service: their journal, what telemetry says of them, and what drives the machine."""
