"""Trains what comes with ecntwin as data: policies of senders, advice. Not installed with it."""
