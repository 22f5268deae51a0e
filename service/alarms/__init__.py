"""Alarms as a part of the service: their kinds and settings, what is looked at, and who is told."""
