"""The lab: a packet-level fabric in its own process, which sends reports to a service and takes watermarks
from it.
"""
