"""``/v1/whatif``: what the twin says of watermarks the caller names."""

from __future__ import annotations

from fastapi import APIRouter

from api.deps import Reads, ServiceDep
from api.schemas.whatif import WhatIfDocument, WhatIfRequest

router = APIRouter(prefix="/v1", tags=["twin"])


@router.post("/whatif")
async def post_whatif(asked: WhatIfRequest, service: ServiceDep, caller: Reads) -> WhatIfDocument:
    """Predictions on the network as it is now, or on a scenario given inline; nothing is set anywhere."""
    return await service.what_if.answer(asked)
