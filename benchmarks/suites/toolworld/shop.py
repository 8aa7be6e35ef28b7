"""A shop: users, orders, stock, refunds."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any, Literal

from benchmarks.suites.base import Invalid, NotFound, Refused
from benchmarks.suites.toolworld.names import CITIES, FIRST, LAST
from benchmarks.suites.toolworld.world import Record, Service, Tables, page_of, piece
from codeact.tools.functions import tool

TODAY = date(2026, 6, 30)
SIZES = (3, 10, 30, 100)
"""Users with so many orders are in every shop: the first ones."""
KINDS = {
    "lamp": ["Desk", "Floor", "Reading", "Table", "Wall"],
    "chair": ["Oak", "Garden", "Kitchen", "Office", "Rocking"],
    "rug": ["Cotton", "Jute", "Round", "Runner", "Wool"],
    "shelf": ["Corner", "Hanging", "Pine", "Steel", "Tall"],
    "clock": ["Alarm", "Kitchen", "Mantel", "Station", "Wall"],
}

Status = Literal["pending", "paid", "shipped", "delivered", "cancelled"]


def total(order: Record) -> float:
    return float(round(sum(item["quantity"] * item["price"] for item in order["items"]), 2))


class Shop(Service):
    @tool(effects="read")
    def rules(self) -> str:
        """The house rules of the shop, in words."""
        return (
            "1. An order may be cancelled only while it is pending or paid. "
            "2. Delivered orders may be refunded up to 30 days after delivery, and only once. "
            "3. Prices are never lowered by more than 30 percent at once. "
            "4. Points are given to users of the tier gold only. "
            "5. Stock is never set below zero. "
            "What is against a rule is not done, also not in part."
        )

    @tool(effects="read")
    def find_user(self, email: str) -> dict[str, Any]:
        """The user with this email address: id, name, email, city, country, tier (basic or gold), points."""
        found = next((user for user in self.tables["users"].values() if user["email"] == email), None)
        if found is None:
            raise NotFound(f"there is no user with the email address {email!r}")
        return found

    @tool(effects="read")
    def get_user(self, user_id: str) -> dict[str, Any]:
        """A user by id, such as U-101: id, name, email, city, country, tier (basic or gold), points."""
        return self._get("users", user_id, "user")

    @tool(effects="read")
    def list_orders(
        self, user_id: str | None = None, status: Status | None = None, page: int = 1
    ) -> dict[str, Any]:
        """Orders by date, oldest first, ten a page.

        Gives {"orders": [...], "page": 1, "pages": 3}; each order has id, user, date (YYYY-MM-DD) and status.

        Args:
            user_id: Only those of this user.
            status: Only those with this status.
            page: Counts from 1.
        """
        found = [
            {name: order[name] for name in ("id", "user", "date", "status")}
            for order in sorted(self.tables["orders"].values(), key=lambda each: (each["date"], each["id"]))
            if user_id in (None, order["user"]) and status in (None, order["status"])
        ]
        return page_of(found, "orders", page, 10)

    @tool(effects="read")
    def get_order(self, order_id: str) -> dict[str, Any]:
        """An order by id, such as O-1001.

        It has id, user, date, status, delivered (a date, or null), refunded (EUR paid back so far) and items, each with
        product (an id), quantity and price (EUR for one piece).
        """
        return self._get("orders", order_id, "order")

    @tool(effects="read")
    def find_products(self, words: str = "", category: str | None = None, page: int = 1) -> dict[str, Any]:
        """Products whose name holds all the words, by id, ten a page.

        Gives {"products": [...], "page": 1, "pages": 3}; each product has id, name, category, price (EUR), weight_g
        (grams) and stock (pieces).

        Args:
            words: In any order; upper and lower case are the same. Empty for all.
            category: lamp, chair, rug, shelf or clock.
            page: Counts from 1.
        """
        asked = words.casefold().split()
        found = [
            product
            for product in self.tables["products"].values()
            if category in (None, product["category"])
            and all(word in product["name"].casefold() for word in asked)
        ]
        return page_of(found, "products", page, 10)

    @tool(effects="read")
    def get_product(self, product_id: str) -> dict[str, Any]:
        """A product by id, such as P-11: id, name, category, price (EUR), weight_g (grams), stock (pieces)."""
        return self._get("products", product_id, "product")

    @tool(effects="read")
    def export_orders(self, month: str, offset: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """All that is known of the orders of a month, by id. This can be large.

        Each order is as get_order gives it, and has also address, parcel and history (a list of events with time, what
        and by).

        Args:
            month: YYYY-MM.
            offset: How many to pass over.
            limit: How many to give at most; all where it is left out.
        """
        found = sorted(
            (order for order in self.tables["orders"].values() if order["date"].startswith(month)),
            key=lambda each: str(each["id"]),
        )
        return [self._in_full(order) for order in piece(found, offset, limit)]

    def _in_full(self, order: Record) -> Record:
        user = self.tables["users"][order["user"]]
        number = int(order["id"].partition("-")[2])
        steps = ("received", "checked", "paid", "packed", "labelled", "handed over", "in transit", "closed")
        history = [
            {
                "time": f"{order['date']}T{8 + step:02d}:{(number * 7 + step) % 60:02d}:00Z",
                "what": f"order {what} at counter {number % 9 + step}",
                "by": f"{FIRST[(number + step) % len(FIRST)]} {LAST[(number * 3 + step) % len(LAST)]}",
            }
            for step, what in enumerate(steps)
        ]
        address = {
            "name": user["name"],
            "street": f"{number % 97 + 1} Station Road",
            "city": user["city"],
            "country": user["country"],
        }
        parcel = {"carrier": ("north", "swift", "blue")[number % 3], "code": f"{number * 7919 % 10**9:09d}"}
        return {**order, "address": address, "parcel": parcel, "history": history}

    @tool(effects="write")
    def cancel_order(self, order_id: str) -> dict[str, Any]:
        """Cancels an order that is pending, paid or shipped, and gives it back."""
        order = self._get("orders", order_id, "order")
        if order["status"] not in ("pending", "paid", "shipped"):
            raise Refused(f"{order_id} is {order['status']} and cannot be cancelled")
        order["status"] = "cancelled"
        return order

    @tool(effects="write")
    def refund_order(self, order_id: str, amount: float) -> dict[str, Any]:
        """Pays an amount (EUR) of a delivered order back, and gives the order back."""
        order = self._get("orders", order_id, "order")
        if order["status"] != "delivered":
            raise Refused(f"{order_id} is {order['status']}; only delivered orders are refunded")
        if amount <= 0 or round(order["refunded"] + amount, 2) > total(order):
            raise Invalid(f"{amount} is not between 0 and what is left of {order_id}")
        order["refunded"] = round(order["refunded"] + amount, 2)
        return order

    @tool(effects="write")
    def set_price(self, product_id: str, price: float) -> dict[str, Any]:
        """Sets a product's price (EUR), and gives the product back."""
        if price <= 0:
            raise Invalid("a price is above 0")
        product = self._get("products", product_id, "product")
        product["price"] = round(price, 2)
        return product

    @tool(effects="write")
    def set_stock(self, product_id: str, pieces: int) -> dict[str, Any]:
        """Sets how many pieces of a product are in stock, and gives the product back."""
        product = self._get("products", product_id, "product")
        product["stock"] = pieces
        return product

    @tool(effects="write")
    def add_points(self, user_id: str, points: int) -> dict[str, Any]:
        """Adds points to a user's account, and gives the user back."""
        user = self._get("users", user_id, "user")
        user["points"] += points
        return user

    def meddle(self) -> tuple[str, dict[str, Any]]:
        return "add_points", {"user_id": next(iter(self.tables["users"])), "points": 1}


def generate(rng: Random) -> Tables:
    products = _products(rng)
    users: dict[str, Record] = {}
    for number, (first, last) in enumerate(
        rng.sample([(first, last) for first in FIRST for last in LAST], 40)
    ):
        city, country = rng.choice(CITIES)
        users[f"U-{101 + number}"] = {
            "id": f"U-{101 + number}",
            "name": f"{first} {last}",
            "email": f"{first}.{last}@mail.example".lower(),
            "city": city,
            "country": country,
            "tier": rng.choice(["basic", "basic", "gold"]),
            "points": rng.randrange(0, 500),
        }
    ids = list(users)
    owners = [user for user, size in zip(ids, SIZES, strict=False) for _ in range(size)]
    owners += [rng.choice(ids[len(SIZES) :]) for _ in range(180)]
    rng.shuffle(owners)
    orders = {
        f"O-{1001 + number}": _order(rng, f"O-{1001 + number}", user, products)
        for number, user in enumerate(owners)
    }
    return {"users": users, "products": products, "orders": orders}


def _products(rng: Random) -> dict[str, Record]:
    made = [(kind, f"{word} {kind}") for kind, words in KINDS.items() for word in words]
    rng.shuffle(made)
    return {
        f"P-{11 + number}": {
            "id": f"P-{11 + number}",
            "name": name.capitalize(),
            "category": kind,
            "price": round(rng.uniform(8, 240), 2),
            "weight_g": rng.randrange(15, 900) * 10,
            "stock": rng.randrange(0, 80),
        }
        for number, (kind, name) in enumerate(made)
    }


def _order(rng: Random, key: str, user: str, products: dict[str, Record]) -> Record:
    day = TODAY - timedelta(days=rng.randrange(3, 180))
    status = rng.choices(["pending", "paid", "shipped", "delivered", "cancelled"], [1, 1, 1, 5, 1])[0]
    delivered = day + timedelta(days=rng.randrange(2, 9)) if status == "delivered" else None
    chosen = rng.sample(sorted(products), rng.randrange(1, 5))
    return {
        "id": key,
        "user": user,
        "date": day.isoformat(),
        "status": status,
        "delivered": min(delivered, TODAY).isoformat() if delivered else None,
        "refunded": 0.0,
        "items": [
            {"product": each, "quantity": rng.randrange(1, 6), "price": products[each]["price"]}
            for each in chosen
        ],
    }
