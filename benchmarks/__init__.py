"""Measures what the agent can do (`python -m benchmarks`) and how fast the sandbox is (`python -m benchmarks.speed`)."""
