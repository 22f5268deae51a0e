"""SONiC through its databases: CONFIG_DB is the configuration, ASIC_DB the state of the hardware."""
