"""A persistent Python kernel in a hardened, resource-limited container."""
