"""Rollouts to many switches and hosts: a pure state machine, its events and its guards."""
