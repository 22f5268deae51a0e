"""``/v1/whatif``: predictions for given watermarks."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.deps import Reads, ServiceDep, unless_gone
from service.documents.predictions import WhatIfDocument, WhatIfRequest

CLIENT_GONE = 499  # as proxies log it; no client is left to read it

router = APIRouter(prefix="/v1", tags=["twin"])


@router.post("/whatif", response_model=WhatIfDocument, summary="Predict watermarks")
async def predict_watermarks(
    asked: WhatIfRequest, request: Request, service: ServiceDep, caller: Reads
) -> WhatIfDocument | Response:
    """Predictions on the current network state, or on a scenario in the request; nothing is set.

    Closing the connection cancels the work.
    """
    found = await unless_gone(request, service.what_if.answer(asked))
    return Response(status_code=CLIENT_GONE) if found is None else found
