"""Advice between rounds: a decision tree, learnt from the twin, names a watermark for a network state."""
