"""A packet-level RoCEv2 fabric: the lab, and the engine of the second opinion."""
