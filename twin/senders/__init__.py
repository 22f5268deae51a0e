"""What the NICs of hosts run: DCQCN, or a policy that acts on round-trip times and reads no ECN."""
