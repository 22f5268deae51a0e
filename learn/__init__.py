"""Trains the policies of learned senders, offline; the service needs none of it."""
