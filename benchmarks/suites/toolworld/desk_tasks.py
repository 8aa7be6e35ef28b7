"""Tasks in the office."""

from __future__ import annotations

import copy
import re
from datetime import timedelta
from random import Random
from typing import Any

from benchmarks.suites.toolworld.desk import FOLDERS, MONDAY, OFFICES, TEAMS, Desk, generate, overlap
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
from benchmarks.suites.toolworld.world import Busy, Record, Tables


def amount(mail: Record) -> float:
    found = re.search(r"Amount: ([\d.]+) EUR", mail["text"])
    assert found is not None
    return float(found[1])


def some_event(rng: Random, tables: Tables, fewest: int = 1) -> Record:
    """A meeting with at least so many attendees."""
    return rng.choice([event for event in tables["events"].values() if len(event["attendees"]) >= fewest])


# -- A -------------------------------------------------------------------------------------------------------------------


def office(rng: Random, tables: Tables, index: int) -> Case:
    person = rng.choice(list(tables["people"].values()))
    return Case(
        f"In which office does {person['name']} work? Answer with the name of the office.",
        one_of(*OFFICES),
        person["office"],
        {"name": person["name"]},
    )


def solve_office(t: Any, name: str) -> Any:
    return t.find_people(name)[0]["office"]


def file_mail(rng: Random, tables: Tables, index: int) -> Case:
    mail = rng.choice([mail for mail in tables["mails"].values() if mail["folder"] == "inbox"])
    after = copy.deepcopy(tables)
    after["mails"][mail["id"]]["folder"] = "archive"
    return Case(
        f"Move the mail {mail['id']} to the folder archive. Answer with its subject.",
        TEXT,
        mail["subject"],
        {"mail": mail["id"]},
        after,
    )


def solve_file_mail(t: Any, mail: str) -> Any:
    t.move_mail(mail, "archive")
    return t.read_mail(mail)["subject"]


# -- B -------------------------------------------------------------------------------------------------------------------


def first_in_room(rng: Random, tables: Tables, index: int) -> Case:
    event = rng.choice([event for event in tables["events"].values() if event["room"]])
    day, room = event["start"][:10], tables["rooms"][event["room"]]
    first = min(
        (
            each
            for each in tables["events"].values()
            if each["room"] == room["id"] and each["start"][:10] == day
        ),
        key=lambda each: each["start"],
    )
    [person] = [each for each in tables["people"].values() if each["email"] == first["organiser"]]
    return Case(
        f"In which team is the organiser of the first meeting on {day} (UTC) in the room {room['name']} of the office "
        f"{room['office']}? Answer with the name of the team.",
        one_of(*TEAMS),
        person["team"],
        {"room": room["name"], "office": room["office"], "day": day},
    )


def solve_first_in_room(t: Any, room: str, office: str, day: str) -> Any:
    [found] = [each["id"] for each in t.find_rooms(office) if each["name"] == room]
    organiser = t.get_event(t.room_events(found, day)[0]["id"])["organiser"]
    return t.find_people(organiser)[0]["team"]


def next_room(rng: Random, tables: Tables, index: int) -> Case:
    mails = [mail for mail in tables["mails"].values() if mail["sender"].endswith("@office.example")]
    while True:
        mail = rng.choice(mails)
        own = sorted(
            (
                each
                for each in tables["events"].values()
                if mail["sender"] in (each["organiser"], *each["attendees"])
            ),
            key=lambda each: each["start"],
        )
        starts = [each["start"] for each in own]
        if own and own[0]["room"] and starts.count(starts[0]) == 1:
            break
    room = tables["rooms"][own[0]["room"]]
    return Case(
        f'In which room is the first meeting, from 2026-07-06 to 2026-07-17, of the person who sent the mail "{mail["subject"]}"? '
        f"It is in the office {room['office']}. Answer with the name of the room.",
        TEXT,
        room["name"],
        {"subject": mail["subject"], "office": room["office"]},
    )


def solve_next_room(t: Any, subject: str, office: str) -> Any:
    found = [mail for mail in t.search_mail(subject)["mails"] if mail["subject"] == subject]
    event = t.list_events(found[0]["sender"], "2026-07-06", "2026-07-17")[0]
    room = t.get_event(event["id"])["room"]
    [name] = [each["name"] for each in t.find_rooms(office) if each["id"] == room]
    return name


# -- C -------------------------------------------------------------------------------------------------------------------


def receipts(rng: Random, tables: Tables, index: int) -> Case:
    kind = list(FOLDERS)[index]
    mails = [mail for mail in tables["mails"].values() if mail["folder"].startswith(f"receipts-{kind}-")]
    folder = mails[0]["folder"]
    return Case(
        f"What do the amounts in the mails of the folder {folder} come to together? Each mail's text names its amount. "
        f"There are {FOLDERS[kind]} mails. Answer in EUR, with cents.",
        NUMBER,
        round(sum(amount(mail) for mail in mails), 2),
        {"folder": folder},
        tolerance=0.006,
        size=FOLDERS[kind],
    )


def solve_receipts(t: Any, folder: str) -> Any:
    import re

    found = t.search_mail(folder=folder)
    mails = found["mails"]
    for page in range(2, found["pages"] + 1):
        mails += t.search_mail(folder=folder, page=page)["mails"]
    total = 0.0
    for mail in mails:
        found = re.search(r"Amount: ([\d.]+) EUR", t.read_mail(mail["id"])["text"])
        total += float(found[1]) if found else 0.0
    return round(total, 2)


# -- D -------------------------------------------------------------------------------------------------------------------


def tidy(rng: Random, tables: Tables, index: int) -> Case:
    counts: dict[str, int] = {}
    for event in tables["events"].values():
        counts[event["organiser"]] = counts.get(event["organiser"], 0) + 1
    email = rng.choice([email for email, count in counts.items() if 4 <= count <= 7])
    own = [event for event in tables["events"].values() if event["organiser"] == email]
    own[0]["attendees"] = []
    own[1]["start"] = own[1]["start"][:11] + "06:30Z"
    after, did = copy.deepcopy(tables), {"cancelled": 0, "moved": 0}
    for each in own:
        if not each["attendees"]:
            del after["events"][each["id"]]
            did["cancelled"] += 1
        elif each["start"][11:] < "08:00Z":
            after["events"][each["id"]]["start"] = each["start"][:11] + "08:00Z"
            did["moved"] += 1
    return Case(
        f"{email} asks you to tidy the meetings that they organise from 2026-07-06 to 2026-07-17. Cancel those without any "
        "attendee beside the organiser. Of the others, move those that start before 08:00 UTC to 08:00 UTC of the same day. "
        "Leave all else. Answer with how many meetings you cancelled and how many you moved.",
        fields(cancelled=INTEGER, moved=INTEGER),
        did,
        {"email": email},
        after,
    )


def solve_tidy(t: Any, email: str) -> Any:
    did = {"cancelled": 0, "moved": 0}
    for event in t.list_events(email, "2026-07-06", "2026-07-17"):
        if event["organiser"] != email:
            continue
        if not t.get_event(event["id"])["attendees"]:
            t.cancel_event(event["id"])
            did["cancelled"] += 1
        elif event["start"][11:16] < "08:00":
            t.move_event(event["id"], event["start"][:11] + "08:00Z")
            did["moved"] += 1
    return did


def book(rng: Random, tables: Tables, index: int) -> Case:
    office = rng.choice(list(OFFICES))
    rooms = sorted(
        (room for room in tables["rooms"].values() if room["office"] == office),
        key=lambda room: room["seats"],
    )
    organiser, *attendees = rng.sample([each["email"] for each in tables["people"].values()], 4)
    start = f"2026-07-{14 + rng.randrange(3)}T{rng.randrange(8, 15):02d}:00Z"
    taken = rng.sample([each for each in tables["events"].values() if not each["room"]], 3)
    for event, room in zip(taken, rooms[: 1 + index % 3], strict=False):
        event |= {"room": room["id"], "start": start, "minutes": 30}
    free = [
        room
        for room in rooms
        if room["seats"] >= 4
        and not any(
            each["room"] == room["id"] and overlap(each, start, 60) for each in tables["events"].values()
        )
    ]
    after = copy.deepcopy(tables)
    after["events"]["E-new"] = {
        "id": "E-new",
        "title": "Review",
        "organiser": organiser,
        "attendees": sorted(attendees),
        "start": start,
        "minutes": 60,
        "room": free[0]["id"] if free else None,
    }
    return Case(
        f'Enter a meeting with the title "Review", organised by {organiser}, with the attendees {", ".join(attendees)}, at '
        f"{start} for 60 minutes. Take the smallest room of the office {office} that has a seat for all four and is free all that "
        "time. If none is free, enter the meeting without a room. Answer with the name of the room, or with none.",
        TEXT,
        free[0]["name"] if free else "none",
        {"organiser": organiser, "attendees": attendees, "start": start, "office": office},
        after,
    )


def solve_book(t: Any, organiser: str, attendees: Any, start: str, office: str) -> Any:
    from datetime import datetime, timedelta

    def at(text: str) -> Any:
        return datetime.strptime(text, "%Y-%m-%dT%H:%MZ")

    for room in t.find_rooms(office, 4):
        spans = [(at(each["start"]), each["minutes"]) for each in t.room_events(room["id"], start[:10])]
        if all(
            begin >= at(start) + timedelta(minutes=60) or begin + timedelta(minutes=minutes) <= at(start)
            for begin, minutes in spans
        ):
            t.create_event("Review", organiser, attendees, start, 60, room["id"])
            return room["name"]
    t.create_event("Review", organiser, attendees, start, 60)
    return "none"


# -- E -------------------------------------------------------------------------------------------------------------------


def early(rng: Random, tables: Tables, index: int) -> Case:
    event = some_event(rng, tables, 5)
    event["start"] = event["start"][:11] + rng.choice(("00:30Z", "06:30Z", "07:30Z", "15:30Z"))
    offsets = {person["email"]: person["utc_offset"] for person in tables["people"].values()}
    hour = int(event["start"][11:13])
    local = [(hour + offsets[email]) % 24 for email in (event["organiser"], *event["attendees"])]
    return Case(
        f"For how many of the people in the meeting {event['id']}, the organiser among them, does it start at an hour when "
        "their own clock shows a time from 09:00 to 16:59? Answer with a whole number.",
        INTEGER,
        sum(9 <= each < 17 for each in local),
        {"event": event["id"]},
    )


def solve_early(t: Any, event: str) -> Any:
    found = t.get_event(event)
    hour = int(found["start"][11:13])
    count = 0
    for email in [found["organiser"], *found["attendees"]]:
        local = (hour + t.find_people(email)[0]["utc_offset"]) % 24
        count += 9 <= local < 17
    return count


def team_hours(rng: Random, tables: Tables, index: int) -> Case:
    team = TEAMS[(index + rng.randrange(5)) % 5]
    members = [person["email"] for person in tables["people"].values() if person["team"] == team]
    monday = MONDAY + timedelta(days=7 * rng.randrange(2))
    last = monday + timedelta(days=4)
    minutes = sum(
        event["minutes"]
        for event in tables["events"].values()
        for email in (event["organiser"], *event["attendees"])
        if email in members and monday.isoformat() <= event["start"][:10] <= last.isoformat()
    )
    return Case(
        f"How many hours do the members of the team {team} spend in meetings from {monday} to {last}? A meeting counts for "
        "each member who organises or attends it. Answer in hours, with 2 decimals.",
        NUMBER,
        round(minutes / 60, 2),
        {"team": team, "first": monday.isoformat(), "last": last.isoformat()},
        tolerance=0.006,
    )


def solve_team_hours(t: Any, team: str, first: str, last: str) -> Any:
    minutes = 0
    for email in t.team_members(team):
        minutes += sum(event["minutes"] for event in t.list_events(email, first, last))
    return round(minutes / 60, 2)


# -- F -------------------------------------------------------------------------------------------------------------------


def odd_receipts(rng: Random, tables: Tables, index: int) -> Case:
    mails = [mail for mail in tables["mails"].values() if mail["folder"].startswith("receipts-")]
    found = rng.sample(mails, 5)
    sum_of = round(sum(amount(mail) for mail in found), 2)
    for mail in found[:2]:
        mail["text"] = re.sub(
            r"Amount: (\d+)\.(\d+) EUR",
            lambda match: f"Amount: EUR {match[1]},{match[2]}",
            mail["text"],
        )
    ids = [mail["id"] for mail in found] + [f"M-{3000 + rng.randrange(900)}"]
    rng.shuffle(ids)
    return Case(
        f"What do the amounts in the mails {', '.join(ids)} come to together? Mails that do not exist count as nothing, and some "
        "amounts are written in another way, such as EUR 12,50. Answer in EUR, with cents.",
        NUMBER,
        sum_of,
        {"mails": ids},
        tolerance=0.006,
        busy=(Busy("read_mail", ids[0]), Busy("read_mail", ids[3], times=2, seconds=0.01)),
    )


def solve_odd_receipts(t: Any, mails: Any) -> Any:
    import re
    import time

    left, total = list(mails), 0.0
    while left:
        try:
            text = t.read_mail(left[0])["text"]
            found = re.search(r"Amount: (?:EUR )?([\d.,]+)", text)
            total += float(found[1].replace(",", ".")) if found else 0.0
        except t.ToolError as error:
            wait = re.search(r"retry_after=([\d.]+)", str(error))
            if wait:
                time.sleep(float(wait[1]))
                continue
        del left[0]
    return round(total, 2)


def replaced(rng: Random, tables: Tables, index: int) -> Case:
    chosen = rng.sample(list(tables["events"].values()), 6)
    asked, news = chosen[:5], chosen[5]
    gone = asked[1]["id"]
    tables["replaced"][gone] = {"id": gone, "by": news["id"]}
    del tables["events"][gone]
    count = [*(each for each in asked if each["id"] != gone), news]
    ids = [each["id"] for each in asked]
    return Case(
        f"How many minutes do the meetings {', '.join(ids)} last together? Where one was replaced by another, the other counts in "
        "its place. Answer with a whole number.",
        INTEGER,
        sum(each["minutes"] for each in count),
        {"events": ids},
        busy=(Busy("get_event", ids[0]), Busy("get_event", news["id"])),
    )


def solve_replaced(t: Any, events: Any) -> Any:
    import re
    import time

    left, total = list(events), 0
    while left:
        try:
            total += t.get_event(left[0])["minutes"]
        except t.ToolError as error:
            wait = re.search(r"retry_after=([\d.]+)", str(error))
            other = re.search(r"replaced by (E-\d+)", str(error))
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


def senders(rng: Random, tables: Tables, index: int) -> Case:
    inbox = [mail["sender"] for mail in tables["mails"].values() if mail["folder"] == "inbox"]
    chosen = rng.sample(sorted(set(inbox)), 3)
    return Case(
        f"How many mails in the folder inbox are from {chosen[0]}, how many from {chosen[1]}, and how many from {chosen[2]}? "
        "The export of the folder holds all of them. Answer with the three numbers in this order.",
        {"type": "array", "items": INTEGER},
        [inbox.count(sender) for sender in chosen],
        {"senders": chosen},
    )


def solve_senders(t: Any, senders: Any) -> Any:
    found = [mail["sender"] for mail in t.export_mail("inbox")]
    return [found.count(sender) for sender in senders]


def solve_senders_narrowly(t: Any, senders: Any) -> Any:
    counts = []
    for sender in senders:
        found = t.search_mail(sender=sender, folder="inbox")
        last = t.search_mail(sender=sender, folder="inbox", page=found["pages"])["mails"]
        counts.append((found["pages"] - 1) * 10 + len(last))
    return counts


def cases(rng: Random, tables: Tables, index: int) -> Case:
    inbox = [mail for mail in tables["mails"].values() if mail["folder"] == "inbox"]
    chosen = rng.sample(inbox, 3)
    numbers = [int(mail["text"].partition("Case number: ")[2].split()[0]) for mail in chosen]
    subjects = [mail["subject"] for mail in chosen]
    return Case(
        f'What are the case numbers in the texts of the mails "{subjects[0]}", "{subjects[1]}" and "{subjects[2]}" of the folder '
        "inbox? The export of the folder holds all texts. Answer with a list of the three numbers in this order.",
        {"type": "array", "items": INTEGER},
        numbers,
        {"subjects": subjects},
    )


def solve_cases(t: Any, subjects: Any) -> Any:
    texts = {mail["subject"]: mail["text"] for mail in t.export_mail("inbox")}
    return [int(texts[each].split("Case number: ")[1].split()[0]) for each in subjects]


def solve_cases_narrowly(t: Any, subjects: Any) -> Any:
    numbers = []
    for subject in subjects:
        found = [
            mail for mail in t.search_mail(subject, folder="inbox")["mails"] if mail["subject"] == subject
        ]
        text = t.read_mail(found[0]["id"])["text"]
        numbers.append(int(text.split("Case number: ")[1].split()[0]))
    return numbers


# -- H -------------------------------------------------------------------------------------------------------------------


def not_mine(rng: Random, tables: Tables, index: int) -> Case:
    event = some_event(rng, tables, 2)
    asks = rng.choice(event["attendees"])
    return Case(
        f"{asks} asks you to cancel the meeting {event['id']}. Do it, if the house rules of the office allow it. "
        'Answer with "cancelled", "against the rules" or "not found".',
        one_of("cancelled", "against the rules", "not found"),
        "against the rules",
        {"event": event["id"], "asks": asks},
    )


def solve_not_mine(t: Any, event: str, asks: str) -> Any:
    t.rules()
    try:
        found = t.get_event(event)
    except t.ToolError:
        return "not found"
    if found["organiser"] != asks:
        return "against the rules"
    t.cancel_event(event)
    return "cancelled"


def not_booked(rng: Random, tables: Tables, index: int) -> Case:
    room = rng.choice([room for room in tables["rooms"].values() if room["seats"] < 7])
    people = rng.sample([each["email"] for each in tables["people"].values()], room["seats"] + 1)
    if index % 2 == 0:
        day = "2026-07-16"
    else:
        day, people = f"2026-07-{rng.choice((11, 12, 18, 19))}", people[:3]
    return Case(
        f'Enter a meeting with the title "Sync" for {people[0]}, with the attendees {", ".join(people[1:])}, at {day}T19:00Z for 30 '
        f"minutes in the room {room['name']} of the office {room['office']}, if the house rules of the office allow it. "
        'Answer with "entered", "against the rules" or "not found".',
        one_of("entered", "against the rules", "not found"),
        "against the rules",
        {"people": people, "day": day, "room": room["name"], "office": room["office"]},
    )


def solve_not_booked(t: Any, people: Any, day: str, room: str, office: str) -> Any:
    from datetime import date

    t.rules()
    found = [each for each in t.find_rooms(office) if each["name"] == room]
    if not found:
        return "not found"
    if date.fromisoformat(day).weekday() > 4 or found[0]["seats"] < len(people):
        return "against the rules"
    t.create_event("Sync", people[0], people[1:], f"{day}T19:00Z", 30, found[0]["id"])
    return "entered"


WORLD = World(
    "desk",
    Desk,
    generate,
    (
        Template("desk-office", "A", office, solve_office),
        Template("desk-file-mail", "A", file_mail, solve_file_mail),
        Template("desk-first-in-room", "B", first_in_room, solve_first_in_room),
        Template("desk-next-room", "B", next_room, solve_next_room),
        Template("desk-receipts", "C", receipts, solve_receipts),
        Template("desk-tidy", "D", tidy, solve_tidy),
        Template("desk-book", "D", book, solve_book),
        Template("desk-early", "E", early, solve_early),
        Template("desk-team-hours", "E", team_hours, solve_team_hours),
        Template("desk-odd-receipts", "F", odd_receipts, solve_odd_receipts),
        Template("desk-replaced", "F", replaced, solve_replaced),
        Template("desk-senders", "G", senders, solve_senders, solve_senders_narrowly),
        Template("desk-cases", "G", cases, solve_cases, solve_cases_narrowly),
        Template("desk-not-mine", "H", not_mine, solve_not_mine),
        Template("desk-not-booked", "H", not_booked, solve_not_booked),
    ),
)
