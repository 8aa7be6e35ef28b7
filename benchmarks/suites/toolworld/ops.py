"""Machines that run services: hosts, samples of their load, tickets, deploys, feature flags."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any, Literal

from benchmarks.suites.base import Invalid, NotFound, Stale
from benchmarks.suites.toolworld.names import FIRST
from benchmarks.suites.toolworld.world import Record, Service, Tables, page_of, piece
from codeact.tools.functions import tool

DAY = "2026-06-30"
SIZES = (3, 10, 30, 100)
"""Services with so many hosts are in every fleet: the first ones."""
REGIONS = ("eu", "us", "ap")
ROLES = ("web", "cache", "db", "queue")
SERVICES = ["atlas", "beacon", "comet", "delta", "ember", "flint", "garnet", "helix", "iris", "jade"]

Metric = Literal["cpu", "memory", "latency"]


class Ops(Service):
    fixed = frozenset({"samples", "renamed"})

    @tool(effects="read")
    def rules(self) -> str:
        """The house rules of operations, in words."""
        return (
            "1. Hosts with the role db are never drained. "
            "2. A flag is never raised by more than 50 points at once. "
            "3. Only the latest deploy of a service is rolled back. "
            "4. Tickets of priority 1 are closed by people only. "
            "What is against a rule is not done, also not in part."
        )

    @tool(effects="read")
    def list_hosts(
        self, region: str | None = None, role: str | None = None, service: str | None = None, page: int = 1
    ) -> dict[str, Any]:
        """The ids of hosts, by id, twenty a page.

        Gives {"hosts": ["h-101", ...], "page": 1, "pages": 3}.

        Args:
            region: eu, us or ap.
            role: web, cache, db or queue.
            service: The service that they run.
            page: Counts from 1.
        """
        found = [
            host["id"]
            for host in self.tables["hosts"].values()
            if region in (None, host["region"])
            and role in (None, host["role"])
            and service in (None, host["service"])
        ]
        return page_of(found, "hosts", page, 20)

    @tool(effects="read")
    def get_host(self, host_id: str) -> dict[str, Any]:
        """A host by id, such as h-101: id, region, role, service, cores, memory_gb (GiB) and status (up or drained)."""
        return self._host(host_id)

    def _host(self, key: str) -> Record:
        renamed = self.tables["renamed"].get(key)
        if renamed is not None:
            raise Stale(f"{key} is now called {renamed['to']}")
        return self._get("hosts", key, "host")

    @tool(effects="read")
    def metric(self, host_id: str, name: Metric, hour: int) -> float:
        """What was measured on a host at a full hour of 2026-06-30.

        Args:
            host_id: Such as h-101.
            name: cpu (percent), memory (MiB in use) or latency (milliseconds).
            hour: 0 to 23.
        """
        host = self._host(host_id)
        if not 0 <= hour <= 23:
            raise Invalid("hours are 0 to 23")
        value = self.tables["samples"][host["id"]][name][hour]
        if value is None:
            raise NotFound(f"there is no sample of {name} on {host_id} at {hour}:00")
        return float(value)

    @tool(effects="read")
    def export_samples(self, region: str, offset: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """All samples of a region's hosts on 2026-06-30, by host id and then hour, 24 a host. This can be large.

        Each has host, time, service, role, cpu (percent), memory (MiB in use), latency (milliseconds), probe and trace.

        Args:
            region: eu, us or ap.
            offset: How many to pass over.
            limit: How many to give at most; all where it is left out.
        """
        hosts = [host for host in self.tables["hosts"].values() if host["region"] == region]
        places = piece([(host, hour) for host in hosts for hour in range(24)], offset, limit)
        return [self._sample(host, hour) for host, hour in places]

    def _sample(self, host: Record, hour: int) -> Record:
        number = int(host["id"].partition("-")[2]) * 24 + hour
        sample = self.tables["samples"][host["id"]]
        return {
            "host": host["id"],
            "time": f"{DAY}T{hour:02d}:00Z",
            "service": host["service"],
            "role": host["role"],
            **{name: sample[name][hour] for name in ("cpu", "memory", "latency")},
            "probe": f"probe-{number % 7}.{host['region']}.monitoring.example",
            "trace": f"{number * 2654435761 % 2**32:08x}",
        }

    @tool(effects="read")
    def list_tickets(
        self,
        status: Literal["open", "closed"] | None = None,
        priority: int | None = None,
        page: int = 1,
    ) -> dict[str, Any]:
        """Tickets, oldest first, ten a page.

        Gives {"tickets": [...], "page": 1, "pages": 3}; each ticket has id, opened (a date), priority, status, host and
        assignee.

        Args:
            status: Only these.
            priority: Only these: 1 (urgent) to 4.
            page: Counts from 1.
        """
        found = [
            ticket
            for ticket in sorted(
                self.tables["tickets"].values(), key=lambda each: (each["opened"], each["id"])
            )
            if status in (None, ticket["status"]) and priority in (None, ticket["priority"])
        ]
        return page_of(found, "tickets", page, 10)

    @tool(effects="read")
    def get_ticket(self, ticket_id: str) -> dict[str, Any]:
        """A ticket by id, such as K-501: id, opened (a date), priority (1 is urgent, to 4), status, host and assignee."""
        return self._get("tickets", ticket_id, "ticket")

    @tool(effects="write")
    def update_ticket(
        self,
        ticket_id: str,
        status: Literal["open", "closed"] | None = None,
        assignee: str | None = None,
    ) -> dict[str, Any]:
        """Changes the status or the assignee of a ticket, or both, and gives it back."""
        ticket = self._get("tickets", ticket_id, "ticket")
        ticket["status"] = status or ticket["status"]
        ticket["assignee"] = assignee or ticket["assignee"]
        return ticket

    @tool(effects="read")
    def list_deploys(self, service: str) -> list[dict[str, Any]]:
        """The last deploys of a service, oldest first: id, service, version, date and status (ok, failed or rolled back)."""
        found = [each for each in self.tables["deploys"].values() if each["service"] == service]
        if not found:
            raise NotFound(f"there is no service {service!r}")
        return sorted(found, key=lambda each: str(each["date"]))

    @tool(effects="write")
    def roll_back(self, deploy_id: str) -> dict[str, Any]:
        """Rolls a deploy (by id, such as D-301) back, and gives it back."""
        deploy = self._get("deploys", deploy_id, "deploy")
        deploy["status"] = "rolled back"
        return deploy

    @tool(effects="read")
    def get_flag(self, name: str) -> dict[str, Any]:
        """A feature flag, such as atlas-new: name, service, and percent (of users who have the feature)."""
        return self._get("flags", name, "flag")

    @tool(effects="write")
    def set_flag(self, name: str, percent: int) -> dict[str, Any]:
        """Sets the percent of a feature flag, 0 to 100, and gives it back."""
        if not 0 <= percent <= 100:
            raise Invalid("percent is 0 to 100")
        flag = self._get("flags", name, "flag")
        flag["percent"] = percent
        return flag

    @tool(effects="write")
    def drain_host(self, host_id: str) -> dict[str, Any]:
        """Takes all work off a host, and gives it back."""
        host = self._host(host_id)
        host["status"] = "drained"
        return host

    def meddle(self) -> tuple[str, dict[str, Any]]:
        return "update_ticket", {"ticket_id": next(iter(self.tables["tickets"])), "assignee": "nobody"}


def generate(rng: Random) -> Tables:
    services = rng.sample(SERVICES, len(SERVICES))
    runs = [name for name, size in zip(services, SIZES, strict=False) for _ in range(size)]
    runs += [rng.choice(services[len(SIZES) :]) for _ in range(30)]
    rng.shuffle(runs)
    hosts = {
        f"h-{101 + number}": {
            "id": f"h-{101 + number}",
            "region": rng.choice(REGIONS),
            "role": rng.choice(ROLES),
            "service": service,
            "cores": rng.choice([4, 8, 16, 32]),
            "memory_gb": rng.choice([16, 32, 64]),
            "status": "drained" if rng.random() < 0.1 else "up",
        }
        for number, service in enumerate(runs)
    }
    return {
        "hosts": hosts,
        "renamed": {},
        "samples": {key: _samples(rng, host) for key, host in hosts.items()},
        "tickets": _tickets(rng, list(hosts)),
        "deploys": _deploys(rng, services),
        "flags": {
            f"{service}-new": {
                "id": f"{service}-new",
                "name": f"{service}-new",
                "service": service,
                "percent": rng.choice([0, 5, 10, 25, 50]),
            }
            for service in services
        },
    }


def _samples(rng: Random, host: Record) -> Record:
    memory = host["memory_gb"] * 1024
    return {
        "cpu": [round(rng.uniform(2, 99), 1) for _ in range(24)],
        "memory": [rng.randrange(memory // 8, memory) for _ in range(24)],
        "latency": [round(rng.uniform(1, 500), 1) for _ in range(24)],
    }


def _tickets(rng: Random, hosts: list[str]) -> dict[str, Record]:
    made: dict[str, Record] = {}
    days = rng.sample(range(400), 60)
    for number, day in enumerate(sorted(days)):
        key = f"K-{501 + number}"
        made[key] = {
            "id": key,
            "opened": (date(2025, 5, 20) + timedelta(days=day)).isoformat(),
            "priority": rng.randrange(1, 5),
            "status": rng.choice(["open", "closed"]),
            "host": rng.choice(hosts),
            "assignee": rng.choice(FIRST).lower(),
        }
    return made


def _deploys(rng: Random, services: list[str]) -> dict[str, Record]:
    made: dict[str, Record] = {}
    for service in services:
        days = sorted(rng.sample(range(170), 6))
        for number, day in enumerate(days):
            key = f"D-{301 + len(made)}"
            made[key] = {
                "id": key,
                "service": service,
                "version": f"{rng.randrange(1, 9)}.{number}.{rng.randrange(20)}",
                "date": (date(2026, 1, 5) + timedelta(days=day)).isoformat(),
                "status": rng.choice(["ok", "ok", "failed", "rolled back"]),
            }
    return made
