"""A watermark's way to many switches, step by step, and back: a pure machine, its events and its guards."""
