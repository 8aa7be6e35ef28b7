"""Suites of others, read where the user has them. Nothing of theirs is part of this project."""
