"""Tuners of ECN watermarks side by side on the packet fabric: same packets, same sight, same judge."""
