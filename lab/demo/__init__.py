"""The demo: a lab tuned by a service beside two labs with a fixed watermark, a process each, and their
comparison.
"""
