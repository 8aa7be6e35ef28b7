"""Packages that an image may lack, loaded when first needed: start-up is on the way to the first model request."""

import importlib
import warnings
from typing import Any


class Missing(Exception):
    """A package this image does not have; the message is the plain sentence for the manifest."""


def need(name: str) -> Any:
    """The module ``name``. Raises `Missing` where the image has no such package."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        raise Missing(f"the package {name.split('.')[0]!r} is not in this image") from None


def has(name: str) -> bool:
    try:
        need(name)
    except Missing:
        return False
    return True
