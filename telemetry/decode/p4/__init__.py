"""P4.org telemetry reports (binary, over UDP) as the columns that JSON reports become; ``decoder`` has the
way in.
"""
