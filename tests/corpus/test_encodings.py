"""Texts that are not UTF-8: recognised by their bytes, or read in the encoding that somebody names."""

import pytest

from wordpipe.corpus import Ingest, expand, in_pieces
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError, WordpipeError

TEXTS = {
    "utf-16": "The mill stands still. Café.", "utf-16-le": "The mill stands still, and no wind blows.",
    "utf-16-be": "Мельница стоит. Ветра нет.", "utf-32": "No wind.", "utf-32-le": "No wind, and no rain.",
    "cp1252": "L’été — “déjà” vu à la forêt où naît l’œuvre.", "latin-1": "Das Mädchen ist größer als je.",
    "iso8859-15": "10 € für zwei Bücher.", "cp1250": "Žluťoučký kůň úpěl ďábelské ódy.",
    "cp1251": "Привет, мир. Это длинный русский текст.", "koi8-r": "Привет, мир. Это длинный русский текст.",
    "cp1253": "Ο μύλος στέκεται. Δεν φυσά καθόλου.", "cp1254": "Türkçe güzel bir dildir, ışık ve şeker, ağaç.",
    "cp1255": "טחנת הרוח עומדת. שלום עולם.", "cp1256": "مرحبا بالعالم، هذا نص عربي طويل بما يكفي",
    "shift_jis": "これは日本語の文章です。文字コードを調べるために書きました。",
    "euc_jp": "これは日本語の文章です。文字コードを調べるために書きました。",
    "gb18030": "风车停了。没有风。这是一个中文文本。",
    "big5": "風車停了。沒有風。這是一個中文文本。", "euc_kr": "풍차가 멈췄다. 바람이 없다. 이것은 한국어 문장입니다.",
}  # fmt: skip


def read(path, **given):
    ingest = Ingest(expand([str(path)]), IngestSettings(documents="line", **given))
    rows = [row for batch in ingest.batches() for row in batch.to_pylist()]
    return "".join(row["text"] for row in rows), ingest


@pytest.mark.parametrize("encoding", TEXTS)
def test_an_encoding_is_recognised_and_said(tmp_path, encoding):
    (tmp_path / "f.txt").write_bytes(TEXTS[encoding].encode(encoding))
    text, ingest = read(tmp_path / "f.txt")
    assert text == TEXTS[encoding]
    ((name, number),) = [(name, n) for name, n in ingest.counts.items() if name.startswith("files_decoded_from.")]
    assert number == 1
    assert TEXTS[encoding].encode(encoding).decode(name.partition(".")[2]) == TEXTS[encoding]
    (said,) = (note for note in ingest.notes if "another encoding" in note)
    assert "1 as " in said
    assert "f.txt" in said
    # and by its name
    (tmp_path / "f.txt").write_bytes(f"a\n{TEXTS[encoding]}".encode(encoding))
    assert read(tmp_path / "f.txt", encoding=encoding)[0] == f"a{TEXTS[encoding]}"


@pytest.mark.parametrize(
    "data",
    [
        b"plain",
        "Grüße 你好".encode(),
        "Grüße".encode() + b" and \xff",
        b"a\xff",
        b"Good \xff\xfe and \xc3( bad bytes.",
        b"x\x80\x81",
    ],
)
def test_utf_8_with_errors_is_utf_8(tmp_path, data):
    (tmp_path / "f.txt").write_bytes(data)
    text, ingest = read(tmp_path / "f.txt")
    assert text == data.decode(errors="replace")
    assert not [name for name in ingest.counts if name.startswith("files_decoded")]


def test_who_is_strict_about_bytes_gets_no_guess(tmp_path):
    (tmp_path / "f.txt").write_bytes(TEXTS["cp1252"].encode("cp1252"))
    with pytest.raises(InputError, match="invalid UTF-8"):
        read(tmp_path / "f.txt", bad_bytes="fail")
    assert read(tmp_path / "f.txt", encoding="utf-8")[0].count("\ufffd") > 5


@pytest.mark.parametrize(("policy", "expected"), [("replace", "One.Tw\ufffdo.Three."), ("skip", "One.Three.")])
@pytest.mark.parametrize(("encoding", "bad"), [("cp1252", b"\x81"), ("utf-16-le", b"\x00\xdc"), ("shift_jis", b"\xff")])
def test_bytes_that_an_encoding_does_not_have_follow_the_policy(tmp_path, encoding, bad, policy, expected):
    lines = [
        "One.\n".encode(encoding),
        "Tw".encode(encoding) + bad + "o.\n".encode(encoding),
        "Three.".encode(encoding),
    ]
    (tmp_path / "f.txt").write_bytes(b"".join(lines))
    text, ingest = read(tmp_path / "f.txt", encoding=encoding, bad_bytes=policy)
    assert text == expected
    assert ingest.counts["bytes_replaced" if policy == "replace" else "lines_skipped_bad_bytes"] == 1
    with pytest.raises(InputError, match=r"f\.txt, line 2, byte "):
        read(tmp_path / "f.txt", encoding=encoding, bad_bytes="fail")


def test_records_of_another_encoding_are_records(tmp_path):
    (tmp_path / "a.csv").write_bytes("text;city\nGrüße.;Köln\n".encode("utf-16"))
    (tmp_path / "b.jsonl").write_bytes('{"text": "Größe", "city": "Zürich"}\n'.encode("cp1252"))
    ingest = Ingest(expand([str(tmp_path)]), IngestSettings())
    rows = [row for batch in ingest.batches() for row in batch.to_pylist()]
    assert [(row["text"], row["city"]) for row in rows] == [("Grüße.", "Köln"), ("Größe", "Zürich")]
    # a page that says its encoding is believed
    (tmp_path / "c.html").write_bytes("<meta charset=koi8-r><p>Мир".encode("koi8-r"))
    assert "Мир" in read(tmp_path / "c.html")[0]


def test_a_file_of_another_encoding_is_read_in_one_piece(tmp_path):
    lines = [f"Größe {n} der Bäume.\n" for n in range(200)]
    (tmp_path / "f.txt").write_bytes("".join(lines).encode("cp1252"))
    settings = IngestSettings(documents="line")
    assert len(in_pieces(expand([str(tmp_path)]), settings, 1000)) == 1
    assert len(in_pieces(expand([str(tmp_path)]), IngestSettings(documents="line", encoding="utf-8"), 1000)) > 2
    assert read(tmp_path / "f.txt")[0] == "".join(line.strip() for line in lines)


@pytest.mark.parametrize("name", ["klingon", "hex", "rot13", ""])
def test_what_is_no_encoding_is_refused(name):
    with pytest.raises(WordpipeError, match="encoding"):
        IngestSettings.make({"encoding": name})
