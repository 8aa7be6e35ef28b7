"""Tasks in the bank."""

from __future__ import annotations

import copy
from datetime import date, timedelta
from random import Random
from typing import Any

from benchmarks.suites.toolworld.ledger import CATEGORIES, SIZES, Ledger, generate
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
from benchmarks.suites.toolworld.world import Busy, Record, Tables


def accounts(tables: Tables, **having: Any) -> list[Record]:
    return [
        each
        for each in tables["accounts"].values()
        if all(each[name] == value for name, value in having.items())
    ]


def booked(tables: Tables, account: str, month: str) -> list[Record]:
    """By date; those of one day by id."""
    found = [
        each
        for each in tables["transactions"].values()
        if each["account"] == account and each["date"].startswith(month)
    ]
    return sorted(found, key=lambda each: (each["date"], each["id"]))


# -- A -------------------------------------------------------------------------------------------------------------------


def balance(rng: Random, tables: Tables, index: int) -> Case:
    account = rng.choice(accounts(tables))
    return Case(
        f"What is the balance of the account {account['id']}? Answer in its currency, with cents.",
        NUMBER,
        account["balance"],
        {"account": account["id"]},
        tolerance=0.001,
    )


def solve_balance(t: Any, account: str) -> Any:
    return t.get_account(account)["balance"]


def category(rng: Random, tables: Tables, index: int) -> Case:
    found = rng.choice(list(tables["transactions"].values()))
    new = rng.choice([each for each in CATEGORIES if each != found["category"]])
    after = copy.deepcopy(tables)
    after["transactions"][found["id"]]["category"] = new
    return Case(
        f"Put the transaction {found['id']} in the category {new}. Answer with the category that it had before.",
        one_of(*CATEGORIES),
        found["category"],
        {"transaction": found["id"], "category": new},
        after,
    )


def solve_category(t: Any, transaction: str, category: str) -> Any:
    before = t.get_transaction(transaction)["category"]
    t.set_category(transaction, category)
    return before


# -- B -------------------------------------------------------------------------------------------------------------------


def largest(rng: Random, tables: Tables, index: int) -> Case:
    while True:
        account = rng.choice(accounts(tables, kind="current"))
        paid = [each for each in booked(tables, account["id"], "2026-06") if each["amount"] < 0]
        if paid:
            break
    most = min(paid, key=lambda each: float(each["amount"]))
    other = tables["accounts"][most["other_account"]]
    return Case(
        f"The largest payment out of the account {account['id']} in June 2026 went to another account of this bank. What is the balance "
        "of that account? Answer in its currency, with cents.",
        NUMBER,
        other["balance"],
        {"account": account["id"]},
        tolerance=0.001,
    )


def solve_largest(t: Any, account: str) -> Any:
    found = t.statement(account, "2026-06")
    rows = found["transactions"]
    for page in range(2, found["pages"] + 1):
        rows += t.statement(account, "2026-06", page)["transactions"]
    most = min(rows, key=lambda row: row["amount"])
    return t.get_account(t.get_transaction(most["id"])["other_account"])["balance"]


def saver(rng: Random, tables: Tables, index: int) -> Case:
    account = rng.choice(accounts(tables, kind="savings"))
    last = booked(tables, account["id"], "2026-05")[-1]
    return Case(
        f"What is the reference of the last transaction of May 2026 on the savings account of {account['owner']}? Of several on one "
        "day, the one with the highest id is the last. Answer with the reference, as text.",
        TEXT,
        last["reference"],
        {"owner": account["owner"]},
    )


def solve_saver(t: Any, owner: str) -> Any:
    keys = t.find_accounts(owner)["accounts"]
    [savings] = [key for key in keys if t.get_account(key)["kind"] == "savings"]
    found = t.statement(savings, "2026-05")
    if found["pages"] > 1:
        found = t.statement(savings, "2026-05", found["pages"])
    return t.get_transaction(found["transactions"][-1]["id"])["reference"]


# -- C -------------------------------------------------------------------------------------------------------------------


def holdings(rng: Random, tables: Tables, index: int) -> Case:
    size = SIZES[index]
    counts: dict[str, int] = {}
    for account in accounts(tables, kind="firm"):
        counts[account["owner"]] = counts.get(account["owner"], 0) + 1
    [firm] = [owner for owner, count in counts.items() if count == size]
    return Case(
        f"What do the balances of all accounts of {firm} come to together? All of them are in EUR, frozen ones count too. Answer in EUR, "
        "with cents.",
        NUMBER,
        round(sum(each["balance"] for each in accounts(tables, owner=firm)), 2),
        {"owner": firm},
        tolerance=0.006,
        size=size,
    )


def solve_holdings(t: Any, owner: str) -> Any:
    found = t.find_accounts(owner)
    keys = found["accounts"]
    for page in range(2, found["pages"] + 1):
        keys += t.find_accounts(owner, page)["accounts"]
    return round(sum(t.get_account(key)["balance"] for key in keys), 2)


# -- D -------------------------------------------------------------------------------------------------------------------


def prune(rng: Random, tables: Tables, index: int) -> Case:
    account = rng.choice(accounts(tables, kind="current"))
    own = [each for each in tables["standing"].values() if each["account"] == account["id"]]
    own[0]["amount"], own[1]["amount"] = 300.0, 250.0
    after, cancelled = copy.deepcopy(tables), []
    for each in own:
        owner = tables["accounts"][each["to"]]["owner"]
        frozen = tables["accounts"][each["to"]]["status"] == "frozen"
        if frozen or (each["amount"] > 200 and owner != account["owner"]):
            after["standing"][each["id"]]["status"] = "cancelled"
            cancelled.append(each["id"])
    return Case(
        f"Go through the standing orders of the account {account['id']}. Cancel those that go to a frozen account. Cancel also those above "
        "200 that go to an account of another owner. Leave the others. Answer with a list of the ids of those that you cancelled, in any order.",
        TEXTS,
        cancelled,
        {"account": account["id"]},
        after,
        unordered=True,
    )


def solve_prune(t: Any, account: str) -> Any:
    owner = t.get_account(account)["owner"]
    cancelled = []
    for order in t.standing_orders(account):
        to = t.get_account(order["to"])
        if to["status"] == "frozen" or (order["amount"] > 200 and to["owner"] != owner):
            t.cancel_standing_order(order["id"])
            cancelled.append(order["id"])
    return cancelled


def sweep(rng: Random, tables: Tables, index: int) -> Case:
    firms = accounts(tables, kind="firm", currency="EUR")
    chosen = rng.sample(firms, 6)
    target, rest = chosen[0], chosen[1:]
    for account, (fewest, most) in zip(
        rest, ((2100, 4000), (50, 1900), (3000, 6000), (1900, 2000), (5000, 9000)), strict=True
    ):
        account |= {"status": "open", "balance": round(rng.uniform(fewest, most), 2)}
    rest[2]["status"] = "frozen"
    target["status"] = "open"
    after, moved = copy.deepcopy(tables), 0.0
    for account in rest:
        if account["status"] == "open" and account["balance"] > 2000:
            more = round(account["balance"] - 2000, 2)
            moved = round(moved + more, 2)
            after["accounts"][account["id"]]["balance"] = 2000.0
    after["accounts"][target["id"]]["balance"] = round(target["balance"] + moved, 2)
    ids = [each["id"] for each in rest]
    rng.shuffle(ids)
    return Case(
        f"Go through the accounts {', '.join(ids)}. From each that is open and holds more than 2000.00 EUR, transfer what is above 2000.00 EUR to the "
        f"account {target['id']}. Leave the others. Answer with the sum that you transferred, in EUR, with cents.",
        NUMBER,
        moved,
        {"accounts": ids, "target": target["id"]},
        after,
        tolerance=0.001,
    )


def solve_sweep(t: Any, accounts: Any, target: str) -> Any:
    moved = 0.0
    for key in accounts:
        account = t.get_account(key)
        if account["status"] == "open" and account["balance"] > 2000:
            more = round(account["balance"] - 2000, 2)
            t.transfer(key, target, more)
            moved = round(moved + more, 2)
    return moved


# -- E -------------------------------------------------------------------------------------------------------------------


def in_euros(rng: Random, tables: Tables, index: int) -> Case:
    while True:
        account = rng.choice([each for each in accounts(tables, kind="current") if each["currency"] != "EUR"])
        rows = booked(tables, account["id"], "2026-06")
        if sum(each["amount"] < 0 for each in rows) >= 3:
            break
    for row in rows:
        day = date.fromisoformat(row["date"])
        row["date"] = (day - timedelta(days=max(0, day.weekday() - 4))).isoformat()
    euros = sum(
        -each["amount"] / tables["rates"][each["date"]][account["currency"]]
        for each in rows
        if each["amount"] < 0
    )
    return Case(
        f"What was paid out of the account {account['id']} in June 2026 in all, in EUR? Convert each payment at the exchange rate of its own day, and "
        "round only the sum. Money that came in does not count. Answer in EUR, as a positive number with cents.",
        NUMBER,
        round(euros, 2),
        {"account": account["id"]},
        tolerance=0.011,
    )


def solve_in_euros(t: Any, account: str) -> Any:
    currency = t.get_account(account)["currency"]
    found = t.statement(account, "2026-06")
    rows = found["transactions"]
    for page in range(2, found["pages"] + 1):
        rows += t.statement(account, "2026-06", page)["transactions"]
    return round(
        sum(-row["amount"] / t.exchange_rate(currency, row["date"]) for row in rows if row["amount"] < 0), 2
    )


def richest(rng: Random, tables: Tables, index: int) -> Case:
    currents = accounts(tables, kind="current")
    rng.shuffle(currents)
    chosen = [next(each for each in currents if each["currency"] == name) for name in ("USD", "NOK", "EUR")]
    chosen += [each for each in currents if each not in chosen][:3]
    rng.shuffle(chosen)
    rates = {"EUR": 1.0, **tables["rates"]["2026-06-30"]}
    most = max(chosen, key=lambda each: float(each["balance"] / rates[each["currency"]]))
    ids = [each["id"] for each in chosen]
    return Case(
        f"Which of the accounts {', '.join(ids)} holds most, if all are converted to EUR at the exchange rates of 2026-06-30? "
        "Answer with the name of its owner.",
        TEXT,
        most["owner"],
        {"accounts": ids},
    )


def solve_richest(t: Any, accounts: Any) -> Any:
    found = [t.get_account(key) for key in accounts]
    rates = {"EUR": 1.0}
    for account in found:
        if account["currency"] not in rates:
            rates[account["currency"]] = t.exchange_rate(account["currency"], "2026-06-30")
    return max(found, key=lambda account: account["balance"] / rates[account["currency"]])["owner"]


# -- F -------------------------------------------------------------------------------------------------------------------


def no_rate(rng: Random, tables: Tables, index: int) -> Case:
    currency = rng.choice(["USD", "GBP", "CHF"])
    sunday = date(2026, 6, 7) + timedelta(days=7 * rng.randrange(3))
    amounts = {
        (sunday + timedelta(days=step)).isoformat(): float(rng.randrange(20, 900)) for step in (-1, 0, 2)
    }
    euros = 0.0
    for day, amount in amounts.items():
        known = max(each for each in tables["rates"] if each <= day)
        euros += amount / tables["rates"][known][currency]
    listed = ", ".join(f"{amount:.2f} {currency} on {day}" for day, amount in amounts.items())
    first = max(each for each in tables["rates"] if each < sunday.isoformat())
    return Case(
        f"What do these payments come to together in EUR, each at the exchange rate of its day: {listed}? Where a day has no rate, take that of the "
        "last day before it that has one. Round only the sum. Answer in EUR, with cents.",
        NUMBER,
        round(euros, 2),
        {"currency": currency, "amounts": amounts},
        tolerance=0.011,
        busy=(Busy("exchange_rate", first), Busy("exchange_rate", list(amounts)[2], times=2, seconds=0.01)),
    )


def solve_no_rate(t: Any, currency: str, amounts: Any) -> Any:
    import re
    import time
    from datetime import date, timedelta

    total = 0.0
    for day, amount in amounts.items():
        at = date.fromisoformat(day)
        while True:
            try:
                total += amount / t.exchange_rate(currency, at.isoformat())
                break
            except t.ToolError as error:
                wait = re.search(r"retry_after=([\d.]+)", str(error))
                if wait:
                    time.sleep(float(wait[1]))
                else:
                    at -= timedelta(days=1)
    return round(total, 2)


def odd_amounts(rng: Random, tables: Tables, index: int) -> Case:
    found = rng.sample(list(tables["transactions"].values()), 5)
    found[0]["amount"], found[3]["amount"] = -1234.5, 2310.75
    total = round(sum(each["amount"] for each in found), 2)
    found[0]["amount"], found[3]["amount"] = "-1,234.50", "2,310.75"
    ids = [each["id"] for each in found] + [f"T-{5000 + rng.randrange(900)}"]
    rng.shuffle(ids)
    return Case(
        f"What do the amounts of the transactions {', '.join(ids)} come to together, as plain numbers whatever their currency, what was paid out being "
        "negative? Transactions that do not exist count as nothing. Some amounts are text with a comma between the thousands, such as "
        '"-1,000.00". Answer with 2 decimals.',
        NUMBER,
        total,
        {"transactions": ids},
        tolerance=0.006,
        busy=(Busy("get_transaction", ids[2], times=2, seconds=0.01),),
    )


def solve_odd_amounts(t: Any, transactions: Any) -> Any:
    import re
    import time

    left, total = list(transactions), 0.0
    while left:
        try:
            total += float(str(t.get_transaction(left[0])["amount"]).replace(",", ""))
        except t.ToolError as error:
            wait = re.search(r"retry_after=([\d.]+)", str(error))
            if wait:
                time.sleep(float(wait[1]))
                continue
        del left[0]
    return round(total, 2)


# -- G -------------------------------------------------------------------------------------------------------------------


def references(rng: Random, tables: Tables, index: int) -> Case:
    month = f"2026-0{4 + rng.randrange(3)}"
    chosen = rng.sample(
        [each for each in tables["transactions"].values() if each["date"].startswith(month)], 3
    )
    ids = [each["id"] for each in chosen]
    return Case(
        f"What are the references of the transactions {', '.join(ids)}, all of {month}? The export of the month holds them. Answer with a list of the "
        "three references, in this order, each as text.",
        TEXTS,
        [each["reference"] for each in chosen],
        {"month": month, "transactions": ids},
    )


def solve_references(t: Any, month: str, transactions: Any) -> Any:
    found = {row["id"]: row["reference"] for row in t.export_transactions(month)}
    return [found[key] for key in transactions]


def solve_references_narrowly(t: Any, month: str, transactions: Any) -> Any:
    return [t.get_transaction(key)["reference"] for key in transactions]


def channels(rng: Random, tables: Tables, index: int) -> Case:
    month = f"2026-0{4 + rng.randrange(3)}"
    wanted = rng.choice(CATEGORIES)
    numbers = [
        int(each["id"][2:]) % 3
        for each in tables["transactions"].values()
        if each["date"].startswith(month) and each["category"] == wanted
    ]
    return Case(
        f"How many transactions of the category {wanted} in {month}, over all accounts, came through each of the channels branch, app and web? The export "
        "of the month says it. Answer with the three numbers.",
        fields(branch=INTEGER, app=INTEGER, web=INTEGER),
        {"branch": numbers.count(0), "app": numbers.count(1), "web": numbers.count(2)},
        {"month": month, "category": wanted},
    )


def solve_channels(t: Any, month: str, category: str) -> Any:
    found = [row["channel"] for row in t.export_transactions(month) if row["category"] == category]
    return {name: found.count(name) for name in ("branch", "app", "web")}


def solve_channels_narrowly(t: Any, month: str, category: str) -> Any:
    counts = {"branch": 0, "app": 0, "web": 0}
    seen = 0
    while rows := t.export_transactions(month, offset=seen, limit=10):
        seen += len(rows)
        for row in rows:
            if row["category"] == category:
                counts[row["channel"]] += 1
    return counts


# -- H -------------------------------------------------------------------------------------------------------------------


def not_to_pay(rng: Random, tables: Tables, index: int) -> Case:
    payer, payee = rng.sample(accounts(tables, kind="firm", status="open"), 2)
    if index % 2 == 0:
        amount = round(payer["balance"] + rng.randrange(10, 500), 2)
    else:
        payer["balance"], amount = 40000.0, float(rng.randrange(10100, 20000, 50))
    return Case(
        f"Transfer {amount:.2f} EUR from the account {payer['id']} to the account {payee['id']}, if the house rules of the bank allow it. "
        'Answer with "transferred", "against the rules" or "not found".',
        one_of("transferred", "against the rules", "not found"),
        "against the rules",
        {"payer": payer["id"], "payee": payee["id"], "amount": amount},
    )


def frozen(rng: Random, tables: Tables, index: int) -> Case:
    payer = rng.choice(accounts(tables, kind="firm", status="open"))
    payee = rng.choice(accounts(tables, kind="firm", status="frozen"))
    key = payee["id"] if index % 2 == 0 else f"A-{800 + rng.randrange(100)}"
    payer["balance"] += 100.0
    payer["balance"] = round(payer["balance"], 2)
    return Case(
        f"Transfer 75.00 EUR from the account {payer['id']} to the account {key}, if the house rules of the bank allow it. "
        'Answer with "transferred", "against the rules" or "not found".',
        one_of("transferred", "against the rules", "not found"),
        "against the rules" if index % 2 == 0 else "not found",
        {"payer": payer["id"], "payee": key, "amount": 75.0},
    )


def solve_transfer(t: Any, payer: str, payee: str, amount: float) -> Any:
    t.rules()
    try:
        one, other = t.get_account(payer), t.get_account(payee)
    except t.ToolError:
        return "not found"
    frozen = "frozen" in (one["status"], other["status"])
    if frozen or one["currency"] != other["currency"] or amount > 10000 or amount > one["balance"]:
        return "against the rules"
    t.transfer(payer, payee, amount)
    return "transferred"


WORLD = World(
    "ledger",
    Ledger,
    generate,
    (
        Template("ledger-balance", "A", balance, solve_balance),
        Template("ledger-category", "A", category, solve_category),
        Template("ledger-largest", "B", largest, solve_largest),
        Template("ledger-saver", "B", saver, solve_saver),
        Template("ledger-holdings", "C", holdings, solve_holdings),
        Template("ledger-prune", "D", prune, solve_prune),
        Template("ledger-sweep", "D", sweep, solve_sweep),
        Template("ledger-in-euros", "E", in_euros, solve_in_euros),
        Template("ledger-richest", "E", richest, solve_richest),
        Template("ledger-no-rate", "F", no_rate, solve_no_rate),
        Template("ledger-odd-amounts", "F", odd_amounts, solve_odd_amounts),
        Template("ledger-references", "G", references, solve_references, solve_references_narrowly),
        Template("ledger-channels", "G", channels, solve_channels, solve_channels_narrowly),
        Template("ledger-not-to-pay", "H", not_to_pay, solve_transfer),
        Template("ledger-frozen", "H", frozen, solve_transfer),
    ),
)
