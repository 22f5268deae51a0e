"""Training of what ships with ecntwin as data; not installed with it. Needs the extra ``learn``."""
