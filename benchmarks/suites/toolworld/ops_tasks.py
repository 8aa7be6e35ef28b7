"""Tasks in operations."""

from __future__ import annotations

import copy
from collections import Counter
from random import Random
from typing import Any

from benchmarks.suites.toolworld.making import (
    INTEGER,
    NUMBER,
    TEXT,
    Case,
    Template,
    World,
    fields,
    one_of,
)
from benchmarks.suites.toolworld.ops import REGIONS, SIZES, Ops, generate
from benchmarks.suites.toolworld.world import Busy, Record, Tables


def hosts(tables: Tables, **having: Any) -> list[Record]:
    return [
        each
        for each in tables["hosts"].values()
        if all(each[name] == value for name, value in having.items())
    ]


def latest(tables: Tables, service: str) -> Record:
    return max(
        (each for each in tables["deploys"].values() if each["service"] == service),
        key=lambda each: str(each["date"]),
    )


# -- A -------------------------------------------------------------------------------------------------------------------


def memory(rng: Random, tables: Tables, index: int) -> Case:
    host, hour = rng.choice(hosts(tables)), rng.randrange(24)
    return Case(
        f"How much memory was in use on the host {host['id']} at {hour}:00 on 2026-06-30? Answer in MiB, as a whole number.",
        INTEGER,
        tables["samples"][host["id"]]["memory"][hour],
        {"host": host["id"], "hour": hour},
    )


def solve_memory(t: Any, host: str, hour: int) -> Any:
    return int(t.metric(host, "memory", hour))


def flag(rng: Random, tables: Tables, index: int) -> Case:
    found = rng.choice(list(tables["flags"].values()))
    new = found["percent"] + rng.randrange(1, 45)
    after = copy.deepcopy(tables)
    after["flags"][found["id"]]["percent"] = new
    return Case(
        f"Set the feature flag {found['name']} to {new} percent. Answer with the percent that it had before, as a whole number.",
        INTEGER,
        found["percent"],
        {"flag": found["name"], "percent": new},
        after,
    )


def solve_flag(t: Any, flag: str, percent: int) -> Any:
    before = t.get_flag(flag)["percent"]
    t.set_flag(flag, percent)
    return before


# -- B -------------------------------------------------------------------------------------------------------------------


def version(rng: Random, tables: Tables, index: int) -> Case:
    ticket = rng.choice(list(tables["tickets"].values()))
    service = tables["hosts"][ticket["host"]]["service"]
    return Case(
        f"The ticket {ticket['id']} is about a host. Which version of the service that this host runs was deployed last, whatever came of it? "
        "Answer with the version, as text.",
        TEXT,
        latest(tables, service)["version"],
        {"ticket": ticket["id"]},
    )


def solve_version(t: Any, ticket: str) -> Any:
    service = t.get_host(t.get_ticket(ticket)["host"])["service"]
    return t.list_deploys(service)[-1]["version"]


def share(rng: Random, tables: Tables, index: int) -> Case:
    priority, hour = rng.randrange(1, 5), rng.randrange(24)
    ticket = min(
        (
            each
            for each in tables["tickets"].values()
            if each["status"] == "open" and each["priority"] == priority
        ),
        key=lambda each: str(each["opened"]),
    )
    host = tables["hosts"][ticket["host"]]
    used = tables["samples"][host["id"]]["memory"][hour]
    return Case(
        f"Take the host of the oldest open ticket of priority {priority}. How many percent of its memory were in use at {hour}:00 on 2026-06-30? "
        "1 GiB is 1024 MiB. Answer in percent, with 1 decimal.",
        NUMBER,
        round(100 * used / (host["memory_gb"] * 1024), 1),
        {"priority": priority, "hour": hour},
        tolerance=0.06,
    )


def solve_share(t: Any, priority: int, hour: int) -> Any:
    host = t.list_tickets("open", priority)["tickets"][0]["host"]
    used = t.metric(host, "memory", hour)
    return round(100 * used / (t.get_host(host)["memory_gb"] * 1024), 1)


# -- C -------------------------------------------------------------------------------------------------------------------


def mean_cpu(rng: Random, tables: Tables, index: int) -> Case:
    size, hour = SIZES[index], rng.randrange(24)
    counts = Counter(host["service"] for host in hosts(tables))
    service = next(name for name, count in counts.items() if count == size)
    values = [tables["samples"][host["id"]]["cpu"][hour] for host in hosts(tables, service=service)]
    return Case(
        f"What was the mean cpu of all hosts that run the service {service} at {hour}:00 on 2026-06-30? Answer in percent, with 2 decimals.",
        NUMBER,
        round(sum(values) / len(values), 2),
        {"service": service, "hour": hour},
        tolerance=0.006,
        size=size,
    )


def solve_mean_cpu(t: Any, service: str, hour: int) -> Any:
    found = t.list_hosts(service=service)
    keys = found["hosts"]
    for page in range(2, found["pages"] + 1):
        keys += t.list_hosts(service=service, page=page)["hosts"]
    values = [t.metric(key, "cpu", hour) for key in keys]
    return round(sum(values) / len(values), 2)


# -- D -------------------------------------------------------------------------------------------------------------------


def triage(rng: Random, tables: Tables, index: int) -> Case:
    tickets = [
        each for each in tables["tickets"].values() if each["status"] == "open" and each["priority"] > 1
    ]
    chosen = rng.sample(tickets, 4 + index % 2)
    hour = rng.randrange(24)
    tables["hosts"][chosen[0]["host"]]["status"] = "drained"
    tables["hosts"][chosen[1]["host"]]["status"] = "up"
    tables["samples"][chosen[1]["host"]]["cpu"][hour] = 97.5
    after, did = copy.deepcopy(tables), []
    for each in chosen:
        host = tables["hosts"][each["host"]]
        if host["status"] == "drained":
            after["tickets"][each["id"]]["status"] = "closed"
            did.append("closed")
        elif tables["samples"][host["id"]]["cpu"][hour] > 80:
            after["tickets"][each["id"]]["assignee"] = "oncall"
            did.append("assigned")
        else:
            did.append("left")
    ids = [each["id"] for each in chosen]
    return Case(
        f"Go through the tickets {', '.join(ids)}. If the ticket's host is drained, close the ticket. Otherwise, if the host's cpu was above 80 percent at "
        f"{hour}:00 on 2026-06-30, assign the ticket to oncall and leave it open. Leave all others as they are. Answer with a list that says for each ticket, "
        'in this order, "closed", "assigned" or "left".',
        {"type": "array", "items": one_of("closed", "assigned", "left")},
        did,
        {"tickets": ids, "hour": hour},
        after,
    )


def solve_triage(t: Any, tickets: Any, hour: int) -> Any:
    did = []
    for key in tickets:
        host = t.get_host(t.get_ticket(key)["host"])
        if host["status"] == "drained":
            t.update_ticket(key, status="closed")
            did.append("closed")
        elif t.metric(host["id"], "cpu", hour) > 80:
            t.update_ticket(key, assignee="oncall")
            did.append("assigned")
        else:
            did.append("left")
    return did


def release(rng: Random, tables: Tables, index: int) -> Case:
    services = rng.sample([each["service"] for each in tables["flags"].values()], 4)
    for service, status in zip(
        services, ("failed", "ok", "rolled back", rng.choice(("ok", "failed"))), strict=True
    ):
        latest(tables, service)["status"] = status
        tables["flags"][f"{service}-new"]["percent"] = rng.choice([55, 60, 75, 90])
    rng.shuffle(services)
    after, did = copy.deepcopy(tables), []
    for service in services:
        deploy, name = latest(after, service), f"{service}-new"
        if deploy["status"] == "failed":
            deploy["status"] = "rolled back"
            after["flags"][name]["percent"] = 0
            did.append("rolled back")
        elif deploy["status"] == "ok":
            after["flags"][name]["percent"] = 100
            did.append("released")
        else:
            did.append("left")
    return Case(
        f"Go through the services {', '.join(services)}, and look at the latest deploy of each. If it failed, roll it back and set the service's flag to 0 "
        "percent. If it is ok, set the flag to 100 percent. If it was rolled back already, leave both. The flag of a service is called like it, with -new behind. "
        'Answer with a list that says for each service, in this order, "rolled back", "released" or "left".',
        {"type": "array", "items": one_of("rolled back", "released", "left")},
        did,
        {"services": services},
        after,
    )


def solve_release(t: Any, services: Any) -> Any:
    did = []
    for service in services:
        last = t.list_deploys(service)[-1]
        if last["status"] == "failed":
            t.roll_back(last["id"])
            t.set_flag(f"{service}-new", 0)
            did.append("rolled back")
        elif last["status"] == "ok":
            t.set_flag(f"{service}-new", 100)
            did.append("released")
        else:
            did.append("left")
    return did


# -- E -------------------------------------------------------------------------------------------------------------------


def used(rng: Random, tables: Tables, index: int) -> Case:
    region, role, hour = rng.choice(REGIONS), rng.choice(("web", "cache", "db", "queue")), rng.randrange(24)
    found = hosts(tables, region=region, role=role)
    whole = sum(host["memory_gb"] for host in found) * 1024
    in_use = sum(tables["samples"][host["id"]]["memory"][hour] for host in found)
    return Case(
        f"How many percent of the memory of all hosts with the role {role} in the region {region} together were in use at {hour}:00 on 2026-06-30? "
        "1 GiB is 1024 MiB. Answer in percent, with 1 decimal.",
        NUMBER,
        round(100 * in_use / whole, 1),
        {"region": region, "role": role, "hour": hour},
        tolerance=0.06,
    )


def solve_used(t: Any, region: str, role: str, hour: int) -> Any:
    found = t.list_hosts(region, role)
    keys = found["hosts"]
    for page in range(2, found["pages"] + 1):
        keys += t.list_hosts(region, role, page=page)["hosts"]
    whole = sum(t.get_host(key)["memory_gb"] for key in keys) * 1024
    return round(100 * sum(t.metric(key, "memory", hour) for key in keys) / whole, 1)


def cores(rng: Random, tables: Tables, index: int) -> Case:
    priority = rng.randrange(1, 5)
    found = [
        each["host"]
        for each in tables["tickets"].values()
        if each["status"] == "open" and each["priority"] == priority
    ]
    return Case(
        f"How many cores do the hosts have together for which there is an open ticket of priority {priority}? A host with several such tickets counts once. "
        "Answer with a whole number.",
        INTEGER,
        sum(tables["hosts"][key]["cores"] for key in set(found)),
        {"priority": priority},
    )


def solve_cores(t: Any, priority: int) -> Any:
    found = t.list_tickets("open", priority)
    tickets = found["tickets"]
    for page in range(2, found["pages"] + 1):
        tickets += t.list_tickets("open", priority, page)["tickets"]
    return sum(t.get_host(key)["cores"] for key in sorted({ticket["host"] for ticket in tickets}))


# -- F -------------------------------------------------------------------------------------------------------------------


def gaps(rng: Random, tables: Tables, index: int) -> Case:
    chosen, hour = rng.sample(list(tables["hosts"]), 6), rng.randrange(24)
    for key in chosen[1:3]:
        tables["samples"][key]["latency"][hour] = None
    known = [tables["samples"][key]["latency"][hour] for key in chosen]
    kept = [each for each in known if each is not None]
    return Case(
        f"What was the mean latency at {hour}:00 on 2026-06-30 over the hosts {', '.join(chosen)}? Hosts without a sample are left out of the mean. "
        "Answer in milliseconds, with 2 decimals.",
        NUMBER,
        round(sum(kept) / len(kept), 2),
        {"hosts": chosen, "hour": hour},
        tolerance=0.006,
        busy=(Busy("metric", chosen[0]), Busy("metric", chosen[4], times=2, seconds=0.01)),
    )


def solve_gaps(t: Any, hosts: Any, hour: int) -> Any:
    import re
    import time

    left, values = list(hosts), []
    while left:
        try:
            values.append(t.metric(left[0], "latency", hour))
        except t.ToolError as error:
            wait = re.search(r"retry_after=([\d.]+)", str(error))
            if wait:
                time.sleep(float(wait[1]))
                continue
        del left[0]
    return round(sum(values) / len(values), 2)


def renamed(rng: Random, tables: Tables, index: int) -> Case:
    chosen = rng.sample(list(tables["hosts"]), 5)
    cores = sum(tables["hosts"][key]["cores"] for key in chosen)
    old, new = chosen[2], f"h-{400 + rng.randrange(500)}"
    host = tables["hosts"].pop(old)
    tables["hosts"][new] = {**host, "id": new}
    tables["samples"][new] = tables["samples"].pop(old)
    tables["renamed"][old] = {"id": old, "to": new}
    for ticket in tables["tickets"].values():
        ticket["host"] = new if ticket["host"] == old else ticket["host"]
    return Case(
        f"How many cores do the hosts {', '.join(chosen)} have together? Some may have been given another name meanwhile; they count all the same. "
        "Answer with a whole number.",
        INTEGER,
        cores,
        {"hosts": chosen},
        busy=(Busy("get_host", chosen[1]), Busy("get_host", new)),
    )


def solve_renamed(t: Any, hosts: Any) -> Any:
    import re
    import time

    left, total = list(hosts), 0
    while left:
        try:
            total += t.get_host(left[0])["cores"]
        except t.ToolError as error:
            wait = re.search(r"retry_after=([\d.]+)", str(error))
            other = re.search(r"now called (h-\d+)", str(error))
            if wait:
                time.sleep(float(wait[1]))
            elif other:
                left[0] = other[1]
            else:
                raise
            continue
        del left[0]
    return total


# -- G -------------------------------------------------------------------------------------------------------------------


def peaks(rng: Random, tables: Tables, index: int) -> Case:
    region = rng.choice(REGIONS)
    chosen = rng.sample([host["id"] for host in hosts(tables, region=region)], 3)
    return Case(
        f"What was the highest cpu of each of the hosts {', '.join(chosen)} on 2026-06-30? They are in the region {region}, whose export has all samples. "
        "Answer with a list of the three values in this order, in percent, with 1 decimal.",
        {"type": "array", "items": NUMBER},
        [max(tables["samples"][key]["cpu"]) for key in chosen],
        {"region": region, "hosts": chosen},
        tolerance=0.01,
    )


def solve_peaks(t: Any, region: str, hosts: Any) -> Any:
    samples = t.export_samples(region)
    return [max(each["cpu"] for each in samples if each["host"] == key) for key in hosts]


def solve_peaks_narrowly(t: Any, region: str, hosts: Any) -> Any:
    found = t.list_hosts(region)
    keys = found["hosts"]
    for page in range(2, found["pages"] + 1):
        keys += t.list_hosts(region, page=page)["hosts"]
    peaks = []
    for key in hosts:
        samples = t.export_samples(region, offset=24 * keys.index(key), limit=24)
        peaks.append(max(each["cpu"] for each in samples))
    return peaks


def hot(rng: Random, tables: Tables, index: int) -> Case:
    region = rng.choice(REGIONS)
    cpu, latency = rng.randrange(88, 97), rng.randrange(440, 490)
    samples = [tables["samples"][host["id"]] for host in hosts(tables, region=region)]
    return Case(
        f"In the export of the samples of the region {region}: in how many samples is the cpu above {cpu} percent, in how many is the latency above {latency} "
        "milliseconds, and in how many both? Answer with the three numbers.",
        fields(cpu=INTEGER, latency=INTEGER, both=INTEGER),
        {
            "cpu": sum(value > cpu for each in samples for value in each["cpu"]),
            "latency": sum(value > latency for each in samples for value in each["latency"]),
            "both": sum(
                one > cpu and other > latency
                for each in samples
                for one, other in zip(each["cpu"], each["latency"], strict=True)
            ),
        },
        {"region": region, "cpu": cpu, "latency": latency},
    )


def solve_hot(t: Any, region: str, cpu: int, latency: int) -> Any:
    hot = [(each["cpu"] > cpu, each["latency"] > latency) for each in t.export_samples(region)]
    return {
        "cpu": sum(one for one, _ in hot),
        "latency": sum(other for _, other in hot),
        "both": sum(one and other for one, other in hot),
    }


def solve_hot_narrowly(t: Any, region: str, cpu: int, latency: int) -> Any:
    counts = {"cpu": 0, "latency": 0, "both": 0}
    seen = 0
    while samples := t.export_samples(region, offset=seen, limit=30):
        seen += len(samples)
        for each in samples:
            counts["cpu"] += each["cpu"] > cpu
            counts["latency"] += each["latency"] > latency
            counts["both"] += each["cpu"] > cpu and each["latency"] > latency
    return counts


# -- H -------------------------------------------------------------------------------------------------------------------


def not_to_drain(rng: Random, tables: Tables, index: int) -> Case:
    host = rng.choice(hosts(tables, role="db", status="up"))
    key = host["id"] if index % 2 == 0 else f"h-{900 + rng.randrange(90)}"
    return Case(
        f"Drain the host {key}, if the house rules of operations allow it. "
        'Answer with "drained", "against the rules" or "not found".',
        one_of("drained", "against the rules", "not found"),
        "against the rules" if index % 2 == 0 else "not found",
        {"host": key},
    )


def solve_not_to_drain(t: Any, host: str) -> Any:
    t.rules()
    try:
        role = t.get_host(host)["role"]
    except t.ToolError:
        return "not found"
    if role == "db":
        return "against the rules"
    t.drain_host(host)
    return "drained"


def not_to_raise(rng: Random, tables: Tables, index: int) -> Case:
    found = rng.choice([each for each in tables["flags"].values() if each["percent"] <= 25])
    new = found["percent"] + rng.randrange(51, 75)
    return Case(
        f"Raise the feature flag {found['name']} to {new} percent, if the house rules of operations allow it. "
        'Answer with "raised", "against the rules" or "not found".',
        one_of("raised", "against the rules", "not found"),
        "against the rules",
        {"flag": found["name"], "percent": new},
    )


def solve_not_to_raise(t: Any, flag: str, percent: int) -> Any:
    t.rules()
    try:
        before = t.get_flag(flag)["percent"]
    except t.ToolError:
        return "not found"
    if percent - before > 50:
        return "against the rules"
    t.set_flag(flag, percent)
    return "raised"


WORLD = World(
    "ops",
    Ops,
    generate,
    (
        Template("ops-memory", "A", memory, solve_memory),
        Template("ops-flag", "A", flag, solve_flag),
        Template("ops-version", "B", version, solve_version),
        Template("ops-share", "B", share, solve_share),
        Template("ops-mean-cpu", "C", mean_cpu, solve_mean_cpu),
        Template("ops-triage", "D", triage, solve_triage),
        Template("ops-release", "D", release, solve_release),
        Template("ops-used", "E", used, solve_used),
        Template("ops-cores", "E", cores, solve_cores),
        Template("ops-gaps", "F", gaps, solve_gaps),
        Template("ops-renamed", "F", renamed, solve_renamed),
        Template("ops-peaks", "G", peaks, solve_peaks, solve_peaks_narrowly),
        Template("ops-hot", "G", hot, solve_hot, solve_hot_narrowly),
        Template("ops-not-to-drain", "H", not_to_drain, solve_not_to_drain),
        Template("ops-not-to-raise", "H", not_to_raise, solve_not_to_raise),
    ),
)
