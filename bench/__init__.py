"""Measurements of speed and accuracy; never part of the installed distribution."""
