"""The text encoding of a byte stream: a mark, else UTF-8 over all of it, else the likeliest legacy encoding."""

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .packages import Missing, need

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 200_000
_PUNCTUATION = set("\xa0‘’“”„‚–—…•€«»°§©®™£¥·²³±×´‹›†‰¿¡ºª½¼")
# Letters beyond ASCII that texts of one language use; a text is judged by the language that covers it best.
_WEST = {
    "French": "éèàçêôâîïëùûœæÿ",
    "German": "äöüß",
    "Spanish": "ñóíáéúüª",
    "Italian": "àèéìòùî",
    "Portuguese": "ãõçáéíóúâêôà",
    "Nordic": "åäöæøé",
    "Icelandic": "þðæöáéíóúý",
}
_CENTRAL = {
    "Polish": "ąćęłńóśźż",
    "Czech": "áčďéěíňóřšťúůýžľĺŕôä",
    "Hungarian": "áéíóöőúüű",
    "Romanian": "ăâîşţ",
    "Croatian": "čćđšž",
}
_CYRILLIC = {"Russian": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё", "Ukrainian": "оаинвіетрслкдумпязьбгйчхцїжєшюфщґ"}
_GREEK = {"Greek": "αοιετσνηυρπκμλςάόίέωήδγχθύφβώξζψ"}
_HEBREW = {"Hebrew": "יוהלארתבשמםנעפקדחטכגסזצןךףץ"}
_ARABIC = {"Arabic": "اليمونرتبعدسفهكقحجطصخشأةضىغءزذثظئإؤ،"}
_THAI = {"Thai": "".join(map(chr, range(0xE01, 0xE5C)))}
_SINGLE = (
    ("cp1252", _WEST, 0.0),
    ("cp1250", _CENTRAL, -0.03),
    ("cp1254", {"Turkish": "ğışçöüİâî"}, -0.04),
    ("iso8859-2", _CENTRAL, -0.06),
    ("cp1257", {"Baltic": "āčēģīķļņšūžąęėįųõäöü"}, -0.08),
    ("mac_roman", _WEST, -0.1),
    ("cp850", _WEST, -0.1),
    ("cp1251", _CYRILLIC, 0.0),
    ("koi8-r", _CYRILLIC, -0.02),
    ("cp866", _CYRILLIC, -0.04),
    ("iso8859-5", _CYRILLIC, -0.05),
    ("cp1253", _GREEK, 0.0),
    ("cp1255", _HEBREW, 0.0),
    ("cp1256", _ARABIC, -0.02),
    ("cp874", _THAI, -0.02),
)
_DOUBLE = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
# The names that people write; cp932 and cp949 are the supersets that real files use.
_ALSO = {"cp1252": ["latin-1"], "cp932": ["shift_jis"], "gb18030": ["gbk"], "cp949": ["euc_kr"]}


_CASE_JUMP = re.compile(r"[^\W\d_A-Z][A-ZÀ-ÖØ-ÞА-ЯΑ-Ω](?=[^\W\d_])")
_SIGN_IN_WORD = re.compile(r"(?<=[^\W\d_])[¿¡³²±°©®§¼½×÷ª¥£†‡‰](?=[^\W\d_])")
_BESIDE_ASCII = re.compile(r"(?<=[A-Za-z])[^\x00-\x7f\W]|[^\x00-\x7f\W](?=[A-Za-z])")
_ALONE = re.compile(r"(?<![^\x00-\x7f])[^\x00-\x7f](?![^\x00-\x7f])")
_LONG_RUN = re.compile(r"[^\x00-\x7f\W]{4,}")


@dataclass(frozen=True)
class Charset:
    """What was found. ``sure`` is false where another encoding would read the bytes too, with other letters."""

    name: str
    sure: bool = True
    alternatives: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    binary: bool = False
    newlines: int = 0


def detect(chunks: Iterable[bytes]) -> Charset:
    """Reads all chunks once, in flat memory. The newline count is exact for encodings that extend ASCII."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    head, high, newlines, nul, valid, total = b"", bytearray(), 0, 0, True, 0
    for chunk in chunks:
        if total == 0:
            head = chunk[:65536]
        total += len(chunk)
        newlines += chunk.count(b"\n")
        nul += chunk.count(b"\0")
        if len(high) < _SAMPLE and not chunk.isascii():
            high += _lines_beyond_ascii(chunk)
        valid = valid and _feeds(decoder, chunk)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Charset(name, newlines=newlines)
    if nul:
        return _with_zero_bytes(head, newlines)
    if valid and _finishes(decoder):
        return Charset("utf-8", newlines=newlines)
    if _binary(head):
        return Charset("binary", binary=True)
    found = guess(bytes(high[:_SAMPLE]))
    return Charset(found.name, found.sure, found.alternatives, found.notes, found.binary, newlines)


def _binary(head: bytes) -> bool:
    """Whether control characters that texts do not hold are frequent."""
    controls = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head[:8192])
    return controls * 30 > len(head[:8192])


def _feeds(decoder: codecs.IncrementalDecoder, chunk: bytes) -> bool:
    try:
        decoder.decode(chunk)
    except UnicodeDecodeError:
        return False
    return True


def _finishes(decoder: codecs.IncrementalDecoder) -> bool:
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _lines_beyond_ascii(chunk: bytes) -> bytes:
    return b"\n".join(line for line in chunk.split(b"\n") if not line.isascii())[:_SAMPLE] + b"\n"


def _with_zero_bytes(head: bytes, newlines: int) -> Charset:
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd > 0.3 * half and even < 0.05 * half:
        return Charset("utf-16-le", True, [], ["UTF-16 without a byte order mark"], newlines=newlines)
    if even > 0.3 * half and odd < 0.05 * half:
        return Charset("utf-16-be", True, [], ["UTF-16 without a byte order mark"], newlines=newlines)
    if (even + odd) * 200 < len(head) and not _binary(head):
        rest = guess(head.replace(b"\0", b"")) if not head.isascii() else Charset("utf-8")
        return Charset(rest.name, False, rest.alternatives, ["the text holds zero bytes"], newlines=newlines)
    return Charset("binary", binary=True)


def guess(sample: bytes) -> Charset:
    """The likeliest encoding of bytes that are not valid UTF-8."""
    broken = _broken_utf8(sample)
    if broken is not None:
        return broken
    scores = sorted(_scores(sample), reverse=True)
    if not scores or scores[0][0] < 0.5:
        return _ask_normalizer(sample, scores[0][1] if scores else "cp1252")
    best, name = scores[0]
    if name in ("cp1252", "mac_roman") and not _decodes(sample, name):
        name = "latin-1"
    rivals = [other for score, other in scores[1:] if score > best - 0.06]
    also = _ALSO.get(name, []) if name != "cp1252" or not _typographic(sample) else []
    beyond = sum(byte > 127 for byte in sample)
    sure = best >= 0.8 and not rivals and beyond >= 4
    return Charset(
        name,
        sure,
        [*also, *rivals][:3],
        [] if sure else ["the encoding is a guess: look at the accented letters"],
    )


def _typographic(sample: bytes) -> bool:
    return any(0x80 <= byte <= 0x9F for byte in sample)


def _decodes(sample: bytes, name: str) -> bool:
    try:
        sample.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _broken_utf8(sample: bytes) -> Charset | None:
    text = sample.decode("utf-8", "replace")
    bad = text.count("�")
    good = sum(character > "\x7f" for character in text) - bad
    if good < 4 or bad * 5 > good:
        return None
    note = f"UTF-8 with about {bad} broken characters: read with encoding_errors='replace'"
    return Charset("utf-8", False, [], [note])


def _scores(sample: bytes) -> list[tuple[float, str]]:
    found = []
    for name in _DOUBLE:
        score = _score_double(sample, name)
        if score is not None:
            found.append((score, name))
    for name, languages, prior in _SINGLE:
        text = sample.decode(name, "replace")
        if text.count("�") * 50 <= sum(byte > 127 for byte in sample):
            found.append((_score_single(text, languages) + prior, name))
    return found


def _score_single(text: str, languages: dict[str, str]) -> float:
    """How well the letters beyond ASCII fit one language, less what no text of it would hold. About 1 at best."""
    high = [character for character in text if character > "\x7f" and character not in _PUNCTUATION]
    if not high:
        return 0.85 if languages is _WEST else 0.6
    # A list of names from all over Europe; Icelandic letters in it would rather be Turkish ones.
    everything = "".join(letters for language, letters in languages.items() if language != "Icelandic")
    latin = languages not in (_CYRILLIC, _GREEK, _HEBREW, _ARABIC, _THAI)
    cover = 0.0
    for letters in [*languages.values(), *([everything] if languages is _WEST else [])]:
        known, common = set(letters), set(letters[:12])
        share = sum(character in known or character.lower() in known for character in high) / len(high)
        often = sum(character.lower() in common for character in high) / len(high)
        weight = (
            0.1 if latin else 0.4
        )  # the frequent letters tell scripts apart whose alphabets fill the same bytes
        cover = max(cover, (1 - weight) * share + weight * often - (0.1 if letters == everything else 0))
    odd = len(_CASE_JUMP.findall(text)) + len(_SIGN_IN_WORD.findall(text)) + _out_of_place(text, languages)
    return cover - 1.5 * min(odd, len(high)) / len(high)


def _out_of_place(text: str, languages: dict[str, str]) -> int:
    """Letters of other scripts stand among themselves; accented Latin ones stand between plain letters."""
    if languages in (_CYRILLIC, _GREEK, _HEBREW, _ARABIC, _THAI):
        return len(_BESIDE_ASCII.findall(text))
    return sum(len(run) for run in _LONG_RUN.findall(text))


def _score_double(sample: bytes, name: str) -> float | None:
    """None when the bytes are not of that encoding; else the share of characters that such texts use."""
    text = sample.decode(name, "replace")
    high = [character for character in text if character > "\x7f"]
    if not high or text.count("�") > len(high) // 50:
        return None
    pairs = max(1, sum(byte > 127 for byte in sample))
    kana = sum("぀" <= c <= "ヿ" for c in high)
    hangul = sum("가" <= c <= "힣" for c in high)
    han = [c for c in high if "一" <= c <= "鿿"]
    wide = sum("　" <= c <= "〿" or "＀" <= c <= "｠" for c in high)
    if name in ("cp932", "euc_jp"):
        used = kana + wide + len(han) * (0.95 if kana * 8 >= len(han) else 0.7)
    elif name == "cp949":
        # Japanese bytes also decode, to syllables that no Korean word has
        usual = sum(0xB0 <= _lead(c, "euc_kr") <= 0xC8 for c in high if "가" <= c <= "힣")
        used = usual + 0.5 * (hangul - usual) + wide + 0.3 * len(han)
    else:
        used = (
            wide
            + 0.97 * sum(_frequent(c, name) for c in han)
            + 0.4 * sum(not _frequent(c, name) for c in han)
        )
        if name == "gb18030" and len(han) > 11 and all(_lead(c) <= 0xC8 for c in han):
            used *= 0.85  # Chinese text goes beyond the rows in which Korean has its syllables
    # Accented Latin letters before ASCII ones also decode, to rare signs: true text has few such pairs.
    density = min(1.0, pairs / (1.6 * len(high))) if name != "cp932" else 1.0
    alone = len(_ALONE.findall(text)) / len(high)
    return used / len(high) * density * (1 - 0.5 * alone)


def _frequent(character: str, name: str) -> bool:
    """Whether a sign is in the rows of the common ones."""
    if name == "gb18030":
        return 0xB0 <= _lead(character) <= 0xD7
    return 0xA4 <= _lead(character, "big5") <= 0xC6


def _lead(character: str, name: str = "gb2312") -> int:
    try:
        return character.encode(name)[0]
    except UnicodeEncodeError:
        return 0xFF


def _ask_normalizer(sample: bytes, fallback: str) -> Charset:
    note = "the encoding is a guess: look at the accented letters"
    try:
        best = need("charset_normalizer").from_bytes(sample[:50_000]).best()
    except Missing:
        best = None
    names = [best.encoding, fallback] if best is not None else [fallback]
    return Charset(names[0], False, [name for name in names[1:] if name != names[0]] or ["latin-1"], [note])
