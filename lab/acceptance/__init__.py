"""The acceptance of a fabric: collectives on the packet engine, and criteria that they pass or fail."""
