"""Tuning rounds: from a scenario and an incumbent to a recommendation."""
