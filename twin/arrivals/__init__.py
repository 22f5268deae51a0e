"""From sampled arrivals to a scenario: sizes, unseen messages, and a calibration on what was measured."""
