"""Tasks in the shop."""

from __future__ import annotations

import copy
from collections import Counter
from random import Random
from typing import Any

from benchmarks.suites.toolworld.making import (
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    Case,
    Template,
    World,
    fields,
    one_of,
)
from benchmarks.suites.toolworld.shop import KINDS, SIZES, Shop, generate, total
from benchmarks.suites.toolworld.world import Busy, Record, Tables


def orders_of(tables: Tables, user: str) -> list[Record]:
    return [order for order in tables["orders"].values() if order["user"] == user]


def some_user(rng: Random, tables: Tables, fewest: int, most: int) -> Record:
    """A user with so many orders, whose first and last day have one order each."""
    users = list(tables["users"].values())
    rng.shuffle(users)
    for user in users:
        days = sorted(order["date"] for order in orders_of(tables, user["id"]))
        if fewest <= len(days) <= most and days.count(days[0]) == days.count(days[-1]) == 1:
            return user
    raise LookupError("no user has so many orders")


# -- A: one look or one change -------------------------------------------------------------------------------------------


def stock(rng: Random, tables: Tables, index: int) -> Case:
    product = rng.choice(list(tables["products"].values()))
    return Case(
        f'How many pieces of the product "{product["name"]}" are in stock? Answer with a whole number.',
        INTEGER,
        product["stock"],
        {"name": product["name"]},
    )


def solve_stock(t: Any, name: str) -> Any:
    return t.find_products(name)["products"][0]["stock"]


def price(rng: Random, tables: Tables, index: int) -> Case:
    product = rng.choice(list(tables["products"].values()))
    new = round(product["price"] * rng.uniform(1.05, 1.3), 2)
    after = copy.deepcopy(tables)
    after["products"][product["id"]]["price"] = new
    return Case(
        f"Set the price of the product {product['id']} to {new:.2f} EUR. Answer with the price that it had before, in EUR.",
        NUMBER,
        product["price"],
        {"product": product["id"], "price": new},
        after,
        tolerance=0.001,
    )


def solve_price(t: Any, product: str, price: float) -> Any:
    before = t.get_product(product)["price"]
    t.set_price(product, price)
    return before


# -- B: one thing leads to the next --------------------------------------------------------------------------------------


def dearest(rng: Random, tables: Tables, index: int) -> Case:
    user = some_user(rng, tables, 2, 30)
    last = max(orders_of(tables, user["id"]), key=lambda order: order["date"])
    item = max(last["items"], key=lambda each: each["price"])
    return Case(
        f"Which product cost most a piece in the latest order of the user with the email address {user['email']}? "
        "Answer with the name of the product.",
        TEXT,
        tables["products"][item["product"]]["name"],
        {"email": user["email"]},
    )


def solve_dearest(t: Any, email: str) -> Any:
    user = t.find_user(email)["id"]
    found = t.list_orders(user)
    if found["pages"] > 1:
        found = t.list_orders(user, page=found["pages"])
    items = t.get_order(found["orders"][-1]["id"])["items"]
    product = max(items, key=lambda item: item["price"])["product"]
    return t.get_product(product)["name"]


def first_order(rng: Random, tables: Tables, index: int) -> Case:
    user = some_user(rng, tables, 3, 30)
    own = sorted(orders_of(tables, user["id"]), key=lambda order: order["date"])
    asked = rng.choice(own[1:])
    return Case(
        f"What did the very first order of the user who placed the order {asked['id']} come to? "
        "An order comes to the sum of quantity times price. Answer in EUR, with cents.",
        NUMBER,
        total(own[0]),
        {"order": asked["id"]},
        tolerance=0.006,
    )


def solve_first_order(t: Any, order: str) -> Any:
    first = t.list_orders(t.get_order(order)["user"])["orders"][0]["id"]
    return round(sum(item["quantity"] * item["price"] for item in t.get_order(first)["items"]), 2)


# -- C: the same for each of N -------------------------------------------------------------------------------------------


def pieces(rng: Random, tables: Tables, index: int) -> Case:
    user = tables["users"][list(tables["users"])[index]]
    own = orders_of(tables, user["id"])
    return Case(
        f"How many pieces did the user with the email address {user['email']} order in all, over all orders, whatever their "
        "status? Answer with a whole number.",
        INTEGER,
        sum(item["quantity"] for order in own for item in order["items"]),
        {"email": user["email"]},
        size=SIZES[index],
    )


def solve_pieces(t: Any, email: str) -> Any:
    user = t.find_user(email)["id"]
    found = t.list_orders(user)
    orders = found["orders"]
    for page in range(2, found["pages"] + 1):
        orders += t.list_orders(user, page=page)["orders"]
    return sum(item["quantity"] for order in orders for item in t.get_order(order["id"])["items"])


# -- D: what is done depends ---------------------------------------------------------------------------------------------


def triage(rng: Random, tables: Tables, index: int) -> Case:
    orders = list(tables["orders"].values())
    rng.shuffle(orders)
    open_, recent, old = (
        [each for each in orders if each["status"] in ("pending", "paid")],
        [each for each in orders if (each["delivered"] or "") >= "2026-06-01"],
        [
            each
            for each in orders
            if each["status"] in ("shipped", "cancelled") or "" < (each["delivered"] or "") < "2026-06-01"
        ],
    )
    chosen = [open_[0], recent[0], recent[1], old[0], *rng.sample(orders, 2 * (index % 2))]
    chosen = list({each["id"]: each for each in chosen}.values())
    rng.shuffle(chosen)
    tables["orders"][recent[1]["id"]]["refunded"] = 5.0
    after, did = copy.deepcopy(tables), []
    for each in chosen:
        order = after["orders"][each["id"]]
        if order["status"] in ("pending", "paid"):
            order["status"] = "cancelled"
            did.append("cancelled")
        elif order["status"] == "delivered" and order["delivered"] >= "2026-06-01" and not order["refunded"]:
            order["refunded"] = total(order)
            did.append("refunded")
        else:
            did.append("left")
    ids = [each["id"] for each in chosen]
    return Case(
        f"Go through the orders {', '.join(ids)}. Cancel an order if it is pending or paid. If it was delivered on "
        "2026-06-01 or later and nothing of it has been refunded yet, refund it in full. Leave all others as they are. "
        'Answer with a list that says for each order, in the order given here, "cancelled", "refunded" or "left".',
        {"type": "array", "items": one_of("cancelled", "refunded", "left")},
        did,
        {"orders": ids},
        after,
    )


def solve_triage(t: Any, orders: Any) -> Any:
    did = []
    for key in orders:
        order = t.get_order(key)
        if order["status"] in ("pending", "paid"):
            t.cancel_order(key)
            did.append("cancelled")
        elif order["status"] == "delivered" and order["delivered"] >= "2026-06-01" and order["refunded"] == 0:
            t.refund_order(key, round(sum(each["quantity"] * each["price"] for each in order["items"]), 2))
            did.append("refunded")
        else:
            did.append("left")
    return did


def prices(rng: Random, tables: Tables, index: int) -> Case:
    kind = list(KINDS)[(index + rng.randrange(5)) % 5]
    own = [each["id"] for each in tables["products"].values() if each["category"] == kind]
    for key, (stock, price) in zip(own, ((3, 80.5), (70, 120.25), (70, 20.0), (40, 99.9)), strict=False):
        tables["products"][key] |= {"stock": stock, "price": price}
    after, raised, lowered = copy.deepcopy(tables), 0, 0
    for key in own:
        product = after["products"][key]
        if product["stock"] < 20:
            product["price"] = round(product["price"] + 5, 2)
            raised += 1
        elif product["stock"] > 60 and product["price"] > 50:
            product["price"] = round(product["price"] - 5, 2)
            lowered += 1
    return Case(
        f"Go through all products of the category {kind}. Where fewer than 20 pieces are in stock, raise the price by 5.00 "
        "EUR. Where more than 60 are in stock and the price is above 50.00 EUR, lower it by 5.00 EUR. Leave the others. "
        "Answer with how many prices you raised and how many you lowered.",
        fields(raised=INTEGER, lowered=INTEGER),
        {"raised": raised, "lowered": lowered},
        {"category": kind},
        after,
    )


def solve_prices(t: Any, category: str) -> Any:
    did = {"raised": 0, "lowered": 0}
    for product in t.find_products(category=category)["products"]:
        if product["stock"] < 20:
            t.set_price(product["id"], round(product["price"] + 5, 2))
            did["raised"] += 1
        elif product["stock"] > 60 and product["price"] > 50:
            t.set_price(product["id"], round(product["price"] - 5, 2))
            did["lowered"] += 1
    return did


# -- E: two sources, and units -------------------------------------------------------------------------------------------


def weight(rng: Random, tables: Tables, index: int) -> Case:
    user = some_user(rng, tables, 4, 10)
    grams = sum(
        item["quantity"] * tables["products"][item["product"]]["weight_g"]
        for order in orders_of(tables, user["id"])
        if order["status"] != "cancelled"
        for item in order["items"]
    )
    return Case(
        f"How many kilograms do all the things weigh that the user with the email address {user['email']} ordered, over all "
        "orders that are not cancelled? Answer in kg, with 2 decimals.",
        NUMBER,
        round(grams / 1000, 2),
        {"email": user["email"]},
        tolerance=0.006,
    )


def solve_weight(t: Any, email: str) -> Any:
    weights: dict[str, int] = {}
    grams = 0
    for order in t.list_orders(t.find_user(email)["id"])["orders"]:
        if order["status"] == "cancelled":
            continue
        for item in t.get_order(order["id"])["items"]:
            key = item["product"]
            if key not in weights:
                weights[key] = t.get_product(key)["weight_g"]
            grams += item["quantity"] * weights[key]
    return round(grams / 1000, 2)


def spent(rng: Random, tables: Tables, index: int) -> Case:
    user = some_user(rng, tables, 5, 10)
    sums: Counter[str] = Counter()
    for order in orders_of(tables, user["id"]):
        for item in order["items"]:
            sums[tables["products"][item["product"]]["category"]] += round(
                item["quantity"] * item["price"] * 100
            )
    return Case(
        "Over all orders of the user with the email address "
        f"{user['email']}, whatever their status: on which category of products does most of the money fall (quantity "
        "times price)? Answer with the category.",
        one_of(*KINDS),
        sums.most_common(1)[0][0],
        {"email": user["email"]},
    )


def solve_spent(t: Any, email: str) -> Any:
    kinds: dict[str, str] = {}
    sums: dict[str, float] = {}
    for order in t.list_orders(t.find_user(email)["id"])["orders"]:
        for item in t.get_order(order["id"])["items"]:
            key = item["product"]
            if key not in kinds:
                kinds[key] = t.get_product(key)["category"]
            sums[kinds[key]] = sums.get(kinds[key], 0) + item["quantity"] * item["price"]
    return max(sums, key=lambda kind: sums[kind])


# -- F: things go wrong --------------------------------------------------------------------------------------------------


def missing(rng: Random, tables: Tables, index: int) -> Case:
    found = rng.sample(list(tables["orders"].values()), 5)
    ids = [each["id"] for each in found] + [f"O-{2000 + rng.randrange(900)}", f"O-{2901 + rng.randrange(90)}"]
    rng.shuffle(ids)
    return Case(
        f"What do the orders {', '.join(ids)} come to together (quantity times price, whatever their status)? "
        "Some of these may not exist: they count as nothing. Answer in EUR, with cents.",
        NUMBER,
        round(sum(total(each) for each in found), 2),
        {"orders": ids},
        tolerance=0.006,
        busy=(Busy("get_order", ids[1]), Busy("get_order", ids[4], times=2, seconds=0.01)),
    )


def solve_missing(t: Any, orders: Any) -> Any:
    import re
    import time

    left, total = list(orders), 0.0
    while left:
        try:
            items = t.get_order(left[0])["items"]
            total += sum(item["quantity"] * item["price"] for item in items)
        except t.ToolError as error:
            wait = re.search(r"retry_after=([\d.]+)", str(error))
            if wait:
                time.sleep(float(wait[1]))
                continue
        del left[0]
    return round(total, 2)


def odd_weights(rng: Random, tables: Tables, index: int) -> Case:
    kind = list(KINDS)[(index + rng.randrange(5)) % 5]
    own = [each for each in tables["products"].values() if each["category"] == kind]
    grams = sum(each["weight_g"] for each in own)
    for each in rng.sample(own, 2):
        each["weight_g"] = f"{each['weight_g'] / 1000:.2f} kg"
    return Case(
        f"What do the products of the category {kind} weigh together, one piece of each? Some weights in the shop are not "
        'whole grams but text such as "1.25 kg". Answer in grams, as a whole number.',
        INTEGER,
        grams,
        {"category": kind},
        busy=(Busy("find_products", kind, times=1 + index % 2),),
    )


def solve_odd_weights(t: Any, category: str) -> Any:
    import re
    import time

    while True:
        try:
            products = t.find_products(category=category)["products"]
            break
        except t.ToolError as error:
            wait = re.search(r"retry_after=([\d.]+)", str(error))
            if not wait:
                raise
            time.sleep(float(wait[1]))
    weights = [product["weight_g"] for product in products]
    return sum(round(float(each.split()[0]) * 1000) if isinstance(each, str) else each for each in weights)


# -- G: much comes back, little is needed --------------------------------------------------------------------------------


def carriers(rng: Random, tables: Tables, index: int) -> Case:
    month = f"2026-0{2 + (index + rng.randrange(4)) % 4}"
    shop = Shop(tables, 0.0)
    sent = Counter(
        shop._in_full(order)["parcel"]["carrier"]
        for order in tables["orders"].values()
        if order["date"][:7] == month
    )
    return Case(
        f"How many of the orders of {month} went with each of the carriers north, swift and blue? The export of orders "
        "says it. Answer with the three numbers.",
        fields(north=INTEGER, swift=INTEGER, blue=INTEGER),
        {name: sent[name] for name in ("north", "swift", "blue")},
        {"month": month},
    )


def solve_carriers(t: Any, month: str) -> Any:
    carriers = [order["parcel"]["carrier"] for order in t.export_orders(month)]
    return {name: carriers.count(name) for name in ("north", "swift", "blue")}


def solve_carriers_narrowly(t: Any, month: str) -> Any:
    carriers: list[str] = []
    while orders := t.export_orders(month, offset=len(carriers), limit=4):
        carriers += [order["parcel"]["carrier"] for order in orders]
    return {name: carriers.count(name) for name in ("north", "swift", "blue")}


def parcels(rng: Random, tables: Tables, index: int) -> Case:
    month = f"2026-0{2 + (index + rng.randrange(4)) % 4}"
    of_month = [order for order in tables["orders"].values() if order["date"][:7] == month]
    chosen = rng.sample(of_month, 3)
    codes = [f"{int(order['id'][2:]) * 7919 % 10**9:09d}" for order in chosen]
    ids = [order["id"] for order in chosen]
    return Case(
        f"What are the parcel codes of the orders {', '.join(ids)}, all of {month}? The export of orders says it. Answer "
        "with a list of the three codes, in this order, each as text.",
        TEXTS,
        codes,
        {"month": month, "orders": ids},
    )


def solve_parcels(t: Any, month: str, orders: Any) -> Any:
    codes = {order["id"]: order["parcel"]["code"] for order in t.export_orders(month)}
    return [codes[key] for key in orders]


def solve_parcels_narrowly(t: Any, month: str, orders: Any) -> Any:
    codes: dict[str, str] = {}
    seen = 0
    while not set(orders) <= set(codes):
        found = t.export_orders(month, offset=seen, limit=4)
        codes.update({order["id"]: order["parcel"]["code"] for order in found})
        seen += len(found)
    return [codes[key] for key in orders]


# -- H: what must not be done --------------------------------------------------------------------------------------------


def not_to_cancel(rng: Random, tables: Tables, index: int) -> Case:
    order = rng.choice([each for each in tables["orders"].values() if each["status"] == "shipped"])
    return Case(
        f"The buyer of the order {order['id']} has changed their mind. Cancel it, if the house rules of the shop allow it. "
        'Answer with "cancelled", "against the rules" or "not found".',
        one_of("cancelled", "against the rules", "not found"),
        "against the rules",
        {"order": order["id"]},
    )


def solve_not_to_cancel(t: Any, order: str) -> Any:
    t.rules()
    if t.get_order(order)["status"] not in ("pending", "paid"):
        return "against the rules"
    t.cancel_order(order)
    return "cancelled"


def not_to_refund(rng: Random, tables: Tables, index: int) -> Case:
    old = [each for each in tables["orders"].values() if "" < (each["delivered"] or "") < "2026-05-15"]
    order = rng.choice(old)
    key = order["id"] if index % 2 == 0 else f"O-{5000 + rng.randrange(900)}"
    return Case(
        f"Refund the order {key} in full, if the house rules of the shop allow it. Today is 2026-06-30. "
        'Answer with "refunded", "against the rules" or "not found".',
        one_of("refunded", "against the rules", "not found"),
        "against the rules" if index % 2 == 0 else "not found",
        {"order": key},
    )


def solve_not_to_refund(t: Any, order: str) -> Any:
    from datetime import date

    t.rules()
    try:
        found = t.get_order(order)
    except t.ToolError:
        return "not found"
    delivered = found["delivered"]
    if not delivered or found["refunded"] or (date(2026, 6, 30) - date.fromisoformat(delivered)).days > 30:
        return "against the rules"
    t.refund_order(
        order, round(sum(each["quantity"] * each["price"] for each in found["items"]), 2) - found["refunded"]
    )
    return "refunded"


WORLD = World(
    "shop",
    Shop,
    generate,
    (
        Template("shop-stock", "A", stock, solve_stock),
        Template("shop-price", "A", price, solve_price),
        Template("shop-dearest", "B", dearest, solve_dearest),
        Template("shop-first-order", "B", first_order, solve_first_order),
        Template("shop-pieces", "C", pieces, solve_pieces),
        Template("shop-triage", "D", triage, solve_triage),
        Template("shop-prices", "D", prices, solve_prices),
        Template("shop-weight", "E", weight, solve_weight),
        Template("shop-spent", "E", spent, solve_spent),
        Template("shop-missing", "F", missing, solve_missing),
        Template("shop-odd-weights", "F", odd_weights, solve_odd_weights),
        Template("shop-carriers", "G", carriers, solve_carriers, solve_carriers_narrowly),
        Template("shop-parcels", "G", parcels, solve_parcels, solve_parcels_narrowly),
        Template("shop-not-to-cancel", "H", not_to_cancel, solve_not_to_cancel),
        Template("shop-not-to-refund", "H", not_to_refund, solve_not_to_refund),
    ),
)
