"""The commands. Modules here import what is heavy only when a command runs, so that `codeact --help` answers at once."""
