"""Counters taken from the switches themselves: over redis from SONiC, over gNMI from SONiC and OpenConfig."""
