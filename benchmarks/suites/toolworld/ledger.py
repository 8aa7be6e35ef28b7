"""A bank: accounts, transactions, exchange rates, transfers, standing orders."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any, Literal

from benchmarks.suites.base import Invalid, NotFound, Refused
from benchmarks.suites.toolworld.names import FIRST, LAST
from benchmarks.suites.toolworld.world import Record, Service, Tables, page_of, piece
from codeact.tools.functions import tool

SIZES = (3, 10, 30, 100)
"""Firms with so many accounts are in every bank: the first ones."""
RATES = {"USD": 1.09, "GBP": 0.85, "NOK": 11.6, "CHF": 0.96}
CATEGORIES = ("food", "rent", "travel", "wages", "other")
FIRMS = [
    "Aurora",
    "Birchwood",
    "Cobalt",
    "Driftwood",
    "Everest",
    "Fjord",
    "Granite",
    "Harbour",
    "Indigo",
    "Juniper",
    "Kestrel",
    "Lagoon",
]
TRADES = ["Foods", "Freight", "Optics", "Paper", "Tools", "Water"]

Category = Literal["food", "rent", "travel", "wages", "other"]


class Ledger(Service):
    fixed = frozenset({"rates"})

    @tool(effects="read")
    def rules(self) -> str:
        """The house rules of the bank, in words."""
        return (
            "1. No transfer takes an account below zero. "
            "2. Frozen accounts neither pay nor receive. "
            "3. Transfers above 10000, in the currency of the paying account, need two people and are not done here. "
            "4. Transfers go between accounts of the same currency only. "
            "What is against a rule is not done, also not in part."
        )

    @tool(effects="read")
    def find_accounts(self, owner: str, page: int = 1) -> dict[str, Any]:
        """The ids of the accounts of an owner (the whole name), ten a page.

        Gives {"accounts": ["A-101", ...], "page": 1, "pages": 3}.
        """
        found = [account["id"] for account in self.tables["accounts"].values() if account["owner"] == owner]
        if not found:
            raise NotFound(f"nobody called {owner!r} has an account")
        return page_of(found, "accounts", page, 10)

    @tool(effects="read")
    def get_account(self, account_id: str) -> dict[str, Any]:
        """An account by id, such as A-101.

        It has id, owner, kind (current, savings or firm), currency, balance (in its currency) and status (open or frozen).
        """
        return self._get("accounts", account_id, "account")

    @tool(effects="read")
    def statement(self, account_id: str, month: str, page: int = 1) -> dict[str, Any]:
        """The transactions of an account in a month, oldest first, ten a page.

        Gives {"transactions": [...], "page": 1, "pages": 3}; each has id, date, amount (in the account's currency, negative
        where it was paid out) and partner.

        Args:
            account_id: Such as A-101.
            month: YYYY-MM.
            page: Counts from 1.
        """
        self._get("accounts", account_id, "account")
        found = [
            {name: each[name] for name in ("id", "date", "amount", "partner")}
            for each in self.tables["transactions"].values()
            if each["account"] == account_id and each["date"].startswith(month)
        ]
        found.sort(key=lambda each: (each["date"], each["id"]))
        return page_of(found, "transactions", page, 10)

    @tool(effects="read")
    def get_transaction(self, transaction_id: str) -> dict[str, Any]:
        """A transaction by id, such as T-1001.

        It has id, account, date, amount (in the account's currency, negative where it was paid out), partner (a name),
        other_account (the partner's account here, or null), category and reference.
        """
        return self._get("transactions", transaction_id, "transaction")

    @tool(effects="read")
    def exchange_rate(self, currency: str, day: str) -> float:
        """How much of a currency (USD, GBP, NOK or CHF) one EUR was worth on a day (YYYY-MM-DD)."""
        rates = self._get("rates", day, "rate of the day")
        if currency not in rates:
            raise NotFound(f"there is no rate of {currency!r}")
        return float(rates[currency])

    @tool(effects="read")
    def standing_orders(self, account_id: str) -> list[dict[str, Any]]:
        """The standing orders that an account pays: id, account, to (an account), amount, and status (active or cancelled)."""
        self._get("accounts", account_id, "account")
        return [each for each in self.tables["standing"].values() if each["account"] == account_id]

    @tool(effects="read")
    def export_transactions(
        self, month: str, offset: int = 0, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """All that is known of the transactions of a month, over all accounts, by id. This can be large.

        Each is as get_transaction gives it, and has also channel, batch, terminal and checks (a list with what, by and result).

        Args:
            month: YYYY-MM.
            offset: How many to pass over.
            limit: How many to give at most; all where it is left out.
        """
        found = [each for each in self.tables["transactions"].values() if each["date"].startswith(month)]
        return [_in_full(each) for each in piece(found, offset, limit)]

    @tool(effects="write")
    def transfer(self, from_account: str, to_account: str, amount: float) -> dict[str, Any]:
        """Moves an amount from one account to another; gives both balances."""
        payer = self._get("accounts", from_account, "account")
        payee = self._get("accounts", to_account, "account")
        if amount <= 0 or payer is payee:
            raise Invalid("an amount above 0 goes to another account")
        payer["balance"] = round(payer["balance"] - amount, 2)
        payee["balance"] = round(payee["balance"] + amount, 2)
        return {from_account: payer["balance"], to_account: payee["balance"]}

    @tool(effects="write")
    def set_status(self, account_id: str, status: Literal["open", "frozen"]) -> dict[str, Any]:
        """Freezes an account, or opens it again, and gives it back."""
        account = self._get("accounts", account_id, "account")
        account["status"] = status
        return account

    @tool(effects="write")
    def set_category(self, transaction_id: str, category: Category) -> dict[str, Any]:
        """Puts a transaction in a category, and gives it back."""
        found = self._get("transactions", transaction_id, "transaction")
        found["category"] = category
        return found

    @tool(effects="write")
    def cancel_standing_order(self, order_id: str) -> dict[str, Any]:
        """Ends a standing order (by id, such as S-11), and gives it back."""
        order = self._get("standing", order_id, "standing order")
        if order["status"] == "cancelled":
            raise Refused(f"{order_id} is cancelled already")
        order["status"] = "cancelled"
        return order

    def meddle(self) -> tuple[str, dict[str, Any]]:
        [first, second, *_] = self.tables["accounts"]
        return "transfer", {"from_account": first, "to_account": second, "amount": 0.01}


def _in_full(transaction: Record) -> Record:
    number = int(transaction["id"].partition("-")[2])
    checks = [
        {
            "what": f"{what} check, list {number * 13 % 97}",
            "by": f"{FIRST[(number + step) % len(FIRST)]} {LAST[(number + 2 * step) % len(LAST)]}",
            "result": "passed",
        }
        for step, what in enumerate(("sanctions", "limit", "duplicate", "signature"))
    ]
    return {
        **transaction,
        "channel": ("branch", "app", "web")[number % 3],
        "batch": f"B-{number * 31 % 9973:05d}",
        "terminal": f"{number * 7907 % 10**8:08d}",
        "checks": checks,
    }


def generate(rng: Random) -> Tables:
    people = [f"{first} {last}" for first in FIRST for last in LAST]
    firms = rng.sample([f"{firm} {trade}" for firm in FIRMS for trade in TRADES], len(SIZES))
    owners = [(firm, "firm", "EUR") for firm, size in zip(firms, SIZES, strict=True) for _ in range(size)]
    for person in rng.sample(people, 24):
        owners.append((person, "current", rng.choice(["EUR", *RATES])))
        owners.append((person, "savings", "EUR"))
    rng.shuffle(owners)
    accounts: dict[str, Record] = {}
    for number, (owner, kind, currency) in enumerate(owners):
        key = f"A-{101 + number}"
        accounts[key] = {
            "id": key,
            "owner": owner,
            "kind": kind,
            "currency": currency,
            "balance": round(rng.uniform(20, 9000), 2),
            "status": "frozen" if rng.random() < 0.08 else "open",
        }
    private = [key for key, account in accounts.items() if account["kind"] != "firm"]
    return {
        "accounts": accounts,
        "transactions": _transactions(rng, accounts, private),
        "rates": _rates(rng),
        "standing": _standing(rng, accounts, private),
    }


def _transactions(rng: Random, accounts: dict[str, Record], private: list[str]) -> dict[str, Record]:
    rows = []
    for key in private:
        for month in (4, 5, 6):
            for _ in range(rng.randrange(3, 9)):
                rows.append((f"2026-{month:02d}-{rng.randrange(1, 31):02d}", key))
    rows.sort()
    made: dict[str, Record] = {}
    for number, (day, key) in enumerate(rows):
        other = rng.choice([each for each in accounts if each != key])
        made[f"T-{1001 + number}"] = {
            "id": f"T-{1001 + number}",
            "account": key,
            "date": day,
            "amount": round(rng.choice((-1, -1, 1)) * rng.uniform(4, 900), 2),
            "partner": accounts[other]["owner"],
            "other_account": other,
            "category": rng.choice(CATEGORIES),
            "reference": f"{rng.randrange(10**8, 10**9)}",
        }
    return made


def _rates(rng: Random) -> dict[str, Record]:
    """Of the days from Monday to Friday."""
    made: dict[str, Record] = {}
    day, rates = date(2026, 4, 1), dict(RATES)
    while day <= date(2026, 6, 30):
        rates = {name: round(rate * rng.uniform(0.99, 1.01), 4) for name, rate in rates.items()}
        if day.weekday() < 5:
            made[day.isoformat()] = {"id": day.isoformat(), **rates}
        day += timedelta(days=1)
    return made


def _standing(rng: Random, accounts: dict[str, Record], private: list[str]) -> dict[str, Record]:
    made: dict[str, Record] = {}
    for key in private:
        if accounts[key]["kind"] != "current":
            continue
        [savings] = [
            each for each in private if each != key and accounts[each]["owner"] == accounts[key]["owner"]
        ]
        for number in range(rng.randrange(4, 7)):
            name = f"S-{11 + len(made)}"
            made[name] = {
                "id": name,
                "account": key,
                "to": savings if number % 3 == 0 else rng.choice([each for each in accounts if each != key]),
                "amount": float(rng.randrange(2, 90) * 5),
                "status": "active",
            }
    return made
