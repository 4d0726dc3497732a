"""Mail: what a person reads in messages that Python's email made, what is left out, and messages that are malformed."""

import random

import pytest

from tests.support.golden import GOLDEN, assert_read_as_expected, golden_files, parts_left_out, read

MAIL = GOLDEN / "mail"
HEAD = b"From: a@example.org\nSubject: Hay\nMessage-ID: <x@y>\nMIME-Version: 1.0\n"


def of(tmp_path, data, name="one.eml"):
    (tmp_path / name).write_bytes(data)
    return read(tmp_path / name)


@pytest.mark.parametrize("path", golden_files("mail"), ids=lambda path: path.name)
def test_what_a_person_reads_is_read(path):
    found, ingest = assert_read_as_expected(path)
    assert ingest.counts["documents_kept"] == len(found)


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("umlauts.eml", {"lines of signatures": 2}),
        ("reply.eml", {"quoted lines": 4}),
        ("attached.eml", {"attachments": 1}),
        ("page.eml", {"quoted lines": 1}),
        ("nested.eml", {}),
    ],
)
def test_what_is_left_out_is_counted(name, left_out):
    _, ingest = read(MAIL / name)
    assert parts_left_out(ingest) == left_out


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Yes.\n\nAm 3. Mai schrieb Ada:\n> Ist es trocken?", "Yes."),
        ("My answers stand below:\n> Is it dry?\nYes.", "My answers stand below:\nYes."),
        ("Yes.\n\n-----Original Message-----\nFrom: Ada\nIs it dry?", "Yes."),
        ("The file -- as it is --\nis whole.", "The file -- as it is --\nis whole."),
        ("a > b\n\n   > quoted\n    > code", "a > b\n\n    > code"),
        ("> all of it\n> is quoted", ""),
    ],
)
def test_lines_of_others(text, kept, tmp_path):
    (one,), _ = of(tmp_path, HEAD + b"\n" + text.encode())
    assert one.text == (kept or "Hay")  # of a message without a text the subject is the text


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (
            b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n",
            b"f=C3=BCr =\nall",
            "für all",
        ),
        (b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n", b"ZsO8cg==", "für"),
        (b"Content-Type: text/plain; charset=x-nobody-knows\n", "für".encode(), "für"),
        (b"Content-Type: text/plain\n", "für".encode("cp1252"), "für"),
        (b"Content-Type: text/plain; charset=unicode_escape\n", b"a\\u0041", "a\\u0041"),
        (b"Content-Type: text/plain; charset=gb2312\n", "東京".encode("gb18030"), "東京"),
        (b"Content-Type: text/html\n", b"<p>one<p>two", "one\n\ntwo"),
    ],
)
def test_encodings(head, body, text, tmp_path):
    (one,), _ = of(tmp_path, HEAD + head + b"\n" + body)
    assert one.text == text


def test_a_header_may_be_in_any_encoding_and_over_several_lines(tmp_path):
    head = b"From: =?iso-8859-1?q?J=FCrgen?= <j@example.org>\nTo: \"King, Ada\" <a@example.org>,\n b@example.org\n" \
           b"Subject: =?utf-8?b?R3LDvMOfZQ==?=\n =?utf-8?q?_aus?= Wien\nDate: gestern\nMIME-Version: 1.0\n\nText."  # fmt: skip
    (one,), _ = of(tmp_path, head)
    assert one.title == "Grüße aus Wien"
    assert one.columns["from"] == "Jürgen <j@example.org>"
    assert one.columns["to"] == "King, Ada <a@example.org>, b@example.org"
    assert "date" not in one.columns


def test_messages_of_one_text_are_all_kept_and_one_message_in_two_files_once(tmp_path):
    for name, sender in (("a.eml", "a"), ("b.eml", "b"), ("c.eml", "b")):
        (tmp_path / name).write_bytes(f"From: {sender}@example.org\nMessage-ID: <{sender}@y>\n\nThanks!".encode())
    found, ingest = read(tmp_path, deduplicate=True)
    assert sorted(one.columns["from"] for one in found) == ["a@example.org", "b@example.org"]
    assert ingest.counts["documents_dropped_duplicate"] == 1


def test_a_file_of_messages_is_read_as_it_comes(tmp_path):
    """A line "From …" within a text parts nothing unless a blank line and a time say so."""
    message = (
        b"From a@b Mon Mar  2 09:30:00 2026\nSubject: %d\n\nFrom here on.\n\nFrom there to 10.\n>From the escaped.\n\n"
    )
    found, _ = of(tmp_path, b"".join(message % number for number in range(3000)), "many.mbox")
    assert [one.title for one in found] == [str(number) for number in range(3000)]
    assert {one.text for one in found} == {"From here on.\n\nFrom there to 10.\nFrom the escaped."}
    assert [one.columns["line"] for one in found[:3]] == [2, 10, 18]


def test_it_is_known_by_its_looks(tmp_path):
    for name in ("a mail", "mail.txt"):
        (one,), _ = of(tmp_path, HEAD + b"\nIt is dry.", name)
        assert (one.title, one.text) == ("Hay", "It is dry.")


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 3000,
        HEAD + b"Content-Type: message/rfc822\n\n" * 300 + b"x",
        HEAD + b"Content-Type: text/plain; charset*0*=utf-8''%E2; charset*1=\"\n\nText",
        HEAD + b"Date: Mon, 99 Foo 99999999999999999999 99:99:99 +9999\nTo: " + b"<" * 5000 + b"\n\nText",
        HEAD + b"Content-Transfer-Encoding: base64\n\n!!!!=",
        b"From " * 10000, b"From x 10:10\nFrom y 10:10\n", b"\n", b"Subject: x",
    ],
)  # fmt: skip
def test_what_is_malformed_costs_at_most_the_message(data, tmp_path):
    _, ingest = of(tmp_path, HEAD + b"\nBefore.", "a.eml")
    (tmp_path / "b.eml").write_bytes(data)
    found, ingest = read(tmp_path, bad_records="skip")
    assert "Before." in [one.text for one in found]
    assert ingest.counts["sources"] == 2


@pytest.mark.parametrize("path", golden_files("mail"), ids=lambda path: path.name)
def test_damaged_it_is_read_and_breaks_nothing(path, tmp_path):
    rng = random.Random(path.name)
    data = path.read_bytes()
    for _ in range(30):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 10, 60])):
            damaged[rng.randrange(len(damaged))] = rng.choice([*b'\n :;=<>"?-', rng.randrange(256)])
        (tmp_path / "good.eml").write_bytes(HEAD + b"\nBefore.")
        (tmp_path / path.name).write_bytes(damaged)
        found, ingest = read(tmp_path, bad_records="skip")
        assert ingest.counts["documents_kept"] == len(found) >= 1
