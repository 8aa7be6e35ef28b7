"""The tools of a small shop: `codeact solve ... --tools shop.py`."""

from decimal import Decimal

from codeact import tool
from codeact.tools.context import current_call

ORDERS = {
    "A-1": {"customer": "Ann", "state": "sent", "total": "120.50"},
    "A-2": {"customer": "Bob", "state": "lost", "total": "35.00"},
    "A-3": {"customer": "Cleo", "state": "lost", "total": "810.00"},
}


@tool(effects="read", namespace="shop")
def find_orders(state: str | None = None) -> list[str]:
    """The numbers of all orders, or of those in one state: paid, sent, lost."""
    return [number for number, order in ORDERS.items() if state in (None, order["state"])]


@tool(effects="read", namespace="shop", idempotent=True)
def order(number: str) -> dict[str, str]:
    """An order: customer, state, total in euros.

    Raises:
        KeyError: There is no such order.
    """
    return ORDERS[number]


@tool(effects="dangerous", namespace="shop", calls=10)
def refund(number: str, amount: Decimal) -> str:
    """Pays euros back to the customer of an order. Each call moves money."""
    if amount > Decimal(ORDERS[number]["total"]):
        raise ValueError(f"order {number} cost {ORDERS[number]['total']} only")
    key = current_call().key  # what a payment service takes, so that it pays once
    return f"{amount} paid back for {number}, key ...{key.rpartition('-')[2]}"
