"""Lets the replay kernels run uncompiled: numba reads columns of a record as attributes, numpy does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twin.replay import model


def records_as_attributes(bundle: Any) -> Any:
    """A bundle of arrays whose record arrays are views that know their columns as attributes."""
    return type(bundle)(
        *(
            value.view(np.recarray) if isinstance(value, np.ndarray) and value.dtype.names else value
            for value in bundle
        )
    )


def run_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hands the replay's kernel such views; only of use with ``NUMBA_DISABLE_JIT``."""
    kernel: Any = model.replay

    def replay(tables: Any, params: Any, *rest: Any) -> Any:
        return kernel(
            records_as_attributes(tables),
            params,
            *(records_as_attributes(one) if hasattr(one, "_fields") else one for one in rest),
        )

    monkeypatch.setattr(model, "replay", replay)
