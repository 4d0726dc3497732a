"""PDF files made of lines, as small as can be: no compression, letters of Latin-1."""

from collections.abc import Iterable


def pdf_of(pages: Iterable[Iterable[str]]) -> bytes:
    """A PDF with these lines on its pages; letters that Latin-1 has not are left out."""
    parts: list[bytes] = []
    for lines in pages:
        shown = (
            line.encode("latin-1", "ignore").replace(b"\\", b"").replace(b"(", b"").replace(b")", b"") for line in lines
        )
        body = b"BT /F 12 Tf 14 TL 72 720 Td " + b" ".join(b"(" + line + b") Tj T*" for line in shown) + b" ET"
        parts.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(body), body))
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(parts)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(parts)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]  # fmt: skip
    for number, part in enumerate(parts):
        box = b"/MediaBox [0 0 612 792] /Resources << /Font << /F 3 0 R >> >>"
        objects += [b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R >>" % (box, 5 + 2 * number), part]
    # objects, the table of where they begin, and where that stands
    data, starts = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        starts.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    size = len(objects) + 1
    end = b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return data + end % (size, table, size, len(data))
