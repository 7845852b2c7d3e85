"""The laboratory of the integration tests: a host without an uplink, a world behind it, and what records both."""
