"""Rollouts of a watermark to many switches: a pure state machine, its events and its guards."""
