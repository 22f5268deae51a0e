"""A packet-level RoCEv2 fabric: the lab, and the second opinion; shares no kernel with the other engines."""
