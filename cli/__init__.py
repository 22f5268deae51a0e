"""The command ``ecntwin``."""

import os

# The twin's matrices are small: threads of BLAS would take ten times the processor time of the work itself.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
