"""Runs inside the sandbox: describes the data files there. Standard library only, plus what the image may have."""
