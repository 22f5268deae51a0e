"""Rollouts in the service: their journal, their telemetry, and what runs the state machine."""
