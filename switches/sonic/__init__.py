"""SONiC through its own databases: CONFIG_DB is what it is asked, ASIC_DB what its hardware runs."""
