"""A slow HTTP API: `codeact solve ... --tools weather.py` with WEATHER_URL=https://api.example.com and its key."""

import os

import httpx2

from codeact import tool

CLIENT = httpx2.AsyncClient(timeout=10)
"""One for all calls: they share an event loop, and so connections."""


@tool(effects="read", idempotent=True, per_minute=600, raises=["LookupError"])
async def temperature(city: str) -> float:
    """Degrees Celsius in a city now."""
    answer = await CLIENT.get(
        f"{os.environ['WEATHER_URL']}/now",
        params={"city": city},
        headers={"Authorization": f"Bearer {os.environ['WEATHER_KEY']}"},
    )
    if answer.status_code == 404:
        raise LookupError(f"no weather is known of {city}")
    answer.raise_for_status()
    return float(answer.json()["celsius"])
