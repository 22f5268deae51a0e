"""Rollouts in the service: their plans, telemetry and notifications, and what runs the state machine."""
