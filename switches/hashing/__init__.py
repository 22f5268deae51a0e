"""ECMP hashing of switches: what hashes flows anew, read and set beside the watermark."""
