"""The lossless configuration of a fabric: the rules it has to keep, headroom, operators' templates."""
