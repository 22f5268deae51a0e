"""The demo: a lab under a service, two labs that keep their setting, a process each, and the comparison."""
