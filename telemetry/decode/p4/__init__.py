"""P4.org telemetry reports (binary, over UDP) to columns; ``decoder`` is the entry point."""
