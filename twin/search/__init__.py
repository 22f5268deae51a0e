"""Samplers that propose watermarks; one family, one file a member."""
