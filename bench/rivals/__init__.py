"""Tuners of ECN watermarks side by side on the packet fabric: same packets, same sight, same judge."""

import os

# Runs are done several at once, and what a learner learns must not depend on the number of cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
