"""An office: people, calendars, rooms, mail."""

from __future__ import annotations

import functools
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from benchmarks.suites.base import Invalid, NotFound, Refused, Stale
from benchmarks.suites.toolworld.names import FIRST, LAST
from benchmarks.suites.toolworld.world import Record, Service, Tables, page_of, piece
from codeact.tools.functions import tool

MONDAY = date(2026, 7, 6)
OFFICES = {"Oslo": 2, "Lisbon": 1, "Tokyo": 9, "Denver": -6}
"""Hours that each office is ahead of UTC in July."""
TEAMS = ("design", "finance", "legal", "platform", "sales")
FOLDERS = {"hotel": 3, "train": 10, "taxi": 30, "lunch": 100}
"""Folders of receipts, and how many mails each has."""
ROOMS = ("Ash", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple", "Oak", "Pine", "Rowan", "Willow")
TOPICS = ("Budget", "Hiring", "Launch", "Onboarding", "Pricing", "Retro", "Roadmap", "Security", "Vendor")


@functools.cache
def parsed(start: str) -> datetime:
    """Raises Invalid for what is no time in UTC."""
    try:
        return datetime.strptime(start, "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC)
    except ValueError:
        raise Invalid(f"{start!r} is no time such as 2026-07-06T09:30Z") from None


def overlap(one: Record, start: str, minutes: int) -> bool:
    first, second = parsed(one["start"]), parsed(start)
    return first < second + timedelta(minutes=minutes) and second < first + timedelta(minutes=one["minutes"])


class Desk(Service):
    fixed = frozenset({"people", "rooms", "replaced"})

    @tool(effects="read")
    def rules(self) -> str:
        """The house rules of the office, in words."""
        return (
            "1. A meeting is moved or cancelled only when its own organiser asks for it. "
            "2. There are no meetings on Saturdays and Sundays. "
            "3. A room is not booked for more people, the organiser among them, than it has seats. "
            "4. Mail stays in the folder legal. "
            "What is against a rule is not done, also not in part."
        )

    @tool(effects="read")
    def find_people(self, words: str) -> list[dict[str, Any]]:
        """People whose name or email address holds all the words, five at most.

        Each has name, email, team, office, and utc_offset: the hours that their clock is ahead of UTC.
        """
        asked = words.casefold().split()
        found = [
            person
            for person in self.tables["people"].values()
            if all(word in f"{person['name']} {person['email']}".casefold() for word in asked)
        ]
        return found[:5]

    @tool(effects="read")
    def team_members(self, team: str) -> list[str]:
        """The email addresses of a team: design, finance, legal, platform or sales."""
        found = [person["email"] for person in self.tables["people"].values() if person["team"] == team]
        if not found:
            raise NotFound(f"there is no team {team!r}")
        return found

    @tool(effects="read")
    def list_events(self, email: str, first_day: str, last_day: str) -> list[dict[str, Any]]:
        """The meetings that a person organises or attends, by start.

        Each has id, title, organiser (an email address), start (UTC, such as 2026-07-06T09:30Z) and minutes.

        Args:
            email: The person's email address.
            first_day: YYYY-MM-DD, in UTC.
            last_day: YYYY-MM-DD, in UTC; it counts too.
        """
        if email not in {person["email"] for person in self.tables["people"].values()}:
            raise NotFound(f"there is nobody with the email address {email!r}")
        found = [
            {name: event[name] for name in ("id", "title", "organiser", "start", "minutes")}
            for event in self.tables["events"].values()
            if email in (event["organiser"], *event["attendees"])
            and first_day <= event["start"][:10] <= last_day
        ]
        return sorted(found, key=lambda event: (event["start"], event["id"]))

    @tool(effects="read")
    def get_event(self, event_id: str) -> dict[str, Any]:
        """A meeting by id, such as E-101.

        It has id, title, organiser (an email address), attendees (email addresses, without the organiser), start (UTC),
        minutes, and room (an id, or null).
        """
        return self._event(event_id)

    def _event(self, key: str) -> Record:
        moved = self.tables["replaced"].get(key)
        if moved is not None:
            raise Stale(f"{key} was replaced by {moved['by']}")
        return self._get("events", key, "meeting")

    @tool(effects="read")
    def find_rooms(self, office: str, seats: int = 1) -> list[dict[str, Any]]:
        """Rooms of an office (Oslo, Lisbon, Tokyo or Denver) with at least so many seats, by seats.

        Each has id, name, office and seats.
        """
        found = [
            room
            for room in self.tables["rooms"].values()
            if room["office"] == office and room["seats"] >= seats
        ]
        return sorted(found, key=lambda room: (room["seats"], room["id"]))

    @tool(effects="read")
    def room_events(self, room_id: str, day: str) -> list[dict[str, Any]]:
        """The meetings in a room on a day (YYYY-MM-DD, in UTC), by start: id, title, start (UTC) and minutes of each."""
        self._get("rooms", room_id, "room")
        found = [
            {name: event[name] for name in ("id", "title", "start", "minutes")}
            for event in self.tables["events"].values()
            if event["room"] == room_id and event["start"][:10] == day
        ]
        return sorted(found, key=lambda event: event["start"])

    @tool(effects="write")
    def create_event(
        self,
        title: str,
        organiser: str,
        attendees: list[str],
        start: str,
        minutes: int,
        room_id: str | None = None,
    ) -> dict[str, Any]:
        """Enters a meeting and gives it back.

        Args:
            title: What it is called.
            organiser: An email address.
            attendees: Email addresses, without the organiser's.
            start: In UTC, such as 2026-07-06T09:30Z.
            minutes: How long it lasts.
            room_id: A room that is free all that time.
        """
        parsed(start)
        if minutes <= 0:
            raise Invalid("a meeting lasts at least a minute")
        if room_id is not None:
            self._get("rooms", room_id, "room")
            taken = [event for event in self.tables["events"].values() if event["room"] == room_id]
            if any(overlap(event, start, minutes) for event in taken):
                raise Refused(f"{room_id} is taken at that time")
        event = {
            "title": title,
            "organiser": organiser,
            "attendees": sorted(attendees),
            "start": start,
            "minutes": minutes,
            "room": room_id,
        }
        return self.tables["events"][self._add("events", "E", event)]

    @tool(effects="write")
    def move_event(self, event_id: str, start: str) -> dict[str, Any]:
        """Gives a meeting another start (UTC, such as 2026-07-06T09:30Z), and gives it back."""
        parsed(start)
        event = self._event(event_id)
        event["start"] = start
        return event

    @tool(effects="write")
    def cancel_event(self, event_id: str) -> str:
        """Removes a meeting from all calendars."""
        del self.tables["events"][self._event(event_id)["id"]]
        return f"{event_id} is cancelled"

    @tool(effects="read")
    def search_mail(
        self, words: str = "", sender: str | None = None, folder: str | None = None, page: int = 1
    ) -> dict[str, Any]:
        """Mails by date, oldest first, ten a page, without their text.

        Gives {"mails": [...], "page": 1, "pages": 3}; each mail has id, folder, sender (an email address), date and subject.

        Args:
            words: All must be in the subject; upper and lower case are the same.
            sender: Only from this email address.
            folder: Such as inbox, archive or legal; all where it is left out.
            page: Counts from 1.
        """
        asked = words.casefold().split()
        found = [
            {name: mail[name] for name in ("id", "folder", "sender", "date", "subject")}
            for mail in sorted(self.tables["mails"].values(), key=lambda mail: (mail["date"], mail["id"]))
            if sender in (None, mail["sender"])
            and folder in (None, mail["folder"])
            and all(word in mail["subject"].casefold() for word in asked)
        ]
        return page_of(found, "mails", page, 10)

    @tool(effects="read")
    def read_mail(self, mail_id: str) -> dict[str, Any]:
        """A mail by id, such as M-1001: id, folder, sender (an email address), date, subject and text."""
        return self._get("mails", mail_id, "mail")

    @tool(effects="read")
    def export_mail(self, folder: str, offset: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """All mails of a folder with their whole text, oldest first. This can be large.

        Each is as read_mail gives it.

        Args:
            folder: Such as inbox.
            offset: How many to pass over.
            limit: How many to give at most; all where it is left out.
        """
        found = [mail for mail in self.tables["mails"].values() if mail["folder"] == folder]
        return piece(sorted(found, key=lambda mail: (mail["date"], mail["id"])), offset, limit)

    @tool(effects="write")
    def move_mail(self, mail_id: str, folder: str) -> dict[str, Any]:
        """Moves a mail to another folder; gives its id and folder."""
        mail = self._get("mails", mail_id, "mail")
        mail["folder"] = folder
        return {"id": mail_id, "folder": folder}

    def meddle(self) -> tuple[str, dict[str, Any]]:
        return "move_mail", {"mail_id": next(iter(self.tables["mails"])), "folder": "elsewhere"}


def generate(rng: Random) -> Tables:
    people: dict[str, Record] = {}
    for number, (first, last) in enumerate(
        rng.sample([(first, last) for first in FIRST for last in LAST], 30)
    ):
        office = rng.choice(list(OFFICES))
        people[f"N-{number}"] = {
            "id": f"N-{number}",
            "name": f"{first} {last}",
            "email": f"{first}.{last}@office.example".lower(),
            "team": TEAMS[number % len(TEAMS)],
            "office": office,
            "utc_offset": OFFICES[office],
        }
    names = rng.sample(ROOMS, len(ROOMS))
    rooms = {
        f"R-{number + 1}": {
            "id": f"R-{number + 1}",
            "name": name,
            "office": list(OFFICES)[number % 4],
            "seats": (4, 8, 14)[number // 4] + rng.randrange(3),
        }
        for number, name in enumerate(names)
    }
    emails = [person["email"] for person in people.values()]
    return {
        "people": people,
        "rooms": rooms,
        "events": _events(rng, emails, rooms),
        "replaced": {},
        "mails": _mails(rng, emails),
    }


def _events(rng: Random, emails: list[str], rooms: dict[str, Record]) -> dict[str, Record]:
    """Each in a room of its own time, or in none."""
    made: dict[str, Record] = {}
    for number in range(140):
        organiser, *attendees = rng.sample(emails, rng.randrange(2, 7))
        day = MONDAY + timedelta(days=rng.choice((0, 1, 2, 3, 4, 7, 8, 9, 10, 11)))
        start = f"{day}T{rng.randrange(6, 18):02d}:{rng.choice((0, 30)):02d}Z"
        minutes = rng.choice((30, 45, 60, 90))
        key = f"E-{101 + number}"
        room = rng.choice([*rooms, None])
        if any(each["room"] == room and overlap(each, start, minutes) for each in made.values()):
            room = None
        made[key] = {
            "id": key,
            "title": f"{rng.choice(TOPICS)} {number + 1}",
            "organiser": organiser,
            "attendees": sorted(attendees),
            "start": start,
            "minutes": minutes,
            "room": room,
        }
    return made


def _mails(rng: Random, emails: list[str]) -> dict[str, Record]:
    made: list[Record] = []
    for kind, size in FOLDERS.items():
        folder = f"receipts-{kind}-{rng.randrange(1000, 10000)}"
        for _ in range(size):
            amount = f"{rng.uniform(5, 400):.2f}"
            text = (
                f"Dear traveller,\n\nthank you. Your {kind} on {rng.randrange(1, 29)} June is paid.\n\n"
                f"Amount: {amount} EUR\nReference: {rng.randrange(10**7, 10**8)}\n"
            )
            made.append(
                {
                    "folder": folder,
                    "sender": f"{kind}@receipts.example",
                    "subject": f"Your {kind}",
                    "text": text,
                    "amount": amount,
                }
            )
    filler = " ".join(
        f"{rng.choice(FIRST)} asked about the {rng.choice(TOPICS).lower()} once more;" for _ in range(14)
    )
    for number in range(220):
        reference = rng.randrange(10**7, 10**8)
        topic = rng.choice(TOPICS)
        words = filler.split()
        cut = rng.randrange(len(words))
        made.append(
            {
                "folder": rng.choices(["inbox", "archive", "legal"], [7, 1, 1])[0],
                "sender": rng.choice(emails[:12]),
                "subject": f"{topic} {number + 1}",
                "text": f"Hello,\n\n{' '.join(words[cut:] + words[:cut])}\n\nCase number: {reference}\nBest wishes\n",
            }
        )
    rng.shuffle(made)
    mails: dict[str, Record] = {}
    for number, mail in enumerate(made):
        mail.pop("amount", None)
        day = date(2026, 6, 1) + timedelta(days=number * 29 // len(made))
        mails[f"M-{1001 + number}"] = {"id": f"M-{1001 + number}", "date": day.isoformat(), **mail}
    return mails
