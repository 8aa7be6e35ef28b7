"""PDF files and images: enough to know what they are, without decoding what could be huge."""

import warnings
from typing import Any

from .columns import cut
from .packages import Missing, need
from .reading import Line, execute, reason
from .sources import MIB, Source

_LARGEST = 64 * MIB


def describe_pdf(entry: dict[str, Any], source: Source) -> None:
    import io
    import logging

    data = source.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        entry["problem"] = "the PDF is too large to be described here (over 64 MiB)"
        return
    try:
        logging.disable(logging.CRITICAL)
        reader = need("pypdf").PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            entry["problem"] = "the PDF is protected by a password"
            return
        entry["pages"] = len(reader.pages)
        text = "\n".join(page.extract_text() for page in reader.pages[:3])
    except Missing as missing:
        entry["problem"] = f"cannot be described: {missing}"
        return
    except Exception as error:  # noqa: BLE001 - a broken PDF raises anything
        entry["problem"] = f"the PDF cannot be read: {reason(error)}"
        return
    finally:
        logging.disable(logging.NOTSET)
    lines = [cut(line, 120) for line in text.splitlines() if line.strip()]
    entry["first_lines"] = lines[:5]
    if not lines:
        entry["notes"].append("no text layer on the first pages: they are pictures of text")
    target, modules = source.binary()
    line = Line(
        f"pages = [page.extract_text() for page in pypdf.PdfReader({target}).pages]", (*modules, "pypdf")
    )
    entry |= {"read": line.text(), "read_verified": len(execute(line, "pages")) == entry["pages"] > 0}


def describe_image(entry: dict[str, Any], source: Source) -> None:
    """Format, size and mode from the header; the raster is not decoded."""
    target, modules = source.binary()
    import io

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = need("PIL.Image")
            module.MAX_IMAGE_PIXELS = None  # the header alone is read here
            with module.open(io.BytesIO(source.read(_LARGEST))) as image:
                entry |= {
                    "format": image.format,
                    "width": image.width,
                    "height": image.height,
                    "mode": image.mode,
                }
                entry["frames"] = getattr(image, "n_frames", 1) if image.format == "GIF" else 1
    except Missing as missing:
        entry["problem"] = f"cannot be described: {missing}"
        return
    except Exception as error:  # noqa: BLE001 - a broken image raises anything
        entry["problem"] = f"the image cannot be opened: {reason(error)}"
        return
    if entry["width"] * entry["height"] > 100_000_000:
        entry["notes"].append("very many pixels: decoding it may exceed the memory")
    line = Line(f"image = Image.open({target})", (*modules, "PIL.Image as Image"))
    with execute(line, "image") as opened:
        verified = opened.size == (entry["width"], entry["height"])
    entry |= {"read": line.text(), "read_verified": verified}
