"""The lab: a packet-level fabric as a process of its own, which reports to a service and is set by it."""
