"""Runs in a process of its own, with the Python and the packages of somebody else's suite; imports nothing of this project."""
