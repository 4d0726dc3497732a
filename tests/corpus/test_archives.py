"""Archives as folders: what is read in them, what is left out, and archives that want to do harm."""

import io
import random
import tarfile
import zipfile

import pytest

from tests.support.golden import GOLDEN, read
from wordpipe.errors import InputError

FILES = {
    "notes/a.txt": b"Bees dance.", "notes/b.md": b"# Mill\n\nIt turns.",
    "deep/well.docx": (GOLDEN / "office/well.docx").read_bytes(),
    "mails/one.eml": (GOLDEN / "mail/umlauts.eml").read_bytes(), "README": b"A text without an ending.", "c.txt.gz": b"",
}  # fmt: skip


def zipped(files=FILES):
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(files=FILES, mode="w", **more):
    with tarfile.open(fileobj=(file := io.BytesIO()), mode=mode) as archive:
        for name, data in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
        for name, kind in more.items():
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, "/etc/passwd"
            archive.addfile(about)
    return file.getvalue()


def of(tmp_path, name, data, **given):
    (tmp_path / name).write_bytes(data)
    return read(tmp_path / name, **given)


def passed(ingest):
    return {
        what.partition(".")[2]: n for what, n in ingest.counts.items() if what.startswith("archive_files_passed_over.")
    }


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.zip", zipped()), ("a.tar", tarred()), ("a.tgz", tarred(mode="w:gz")), ("a.tar.xz", tarred(mode="w:xz")),
        ("a.tar.bz2", tarred(mode="w:bz2")),
    ],
)  # fmt: skip
def test_an_archive_is_a_folder(name, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, _ = of(tmp_path, name, data)
    folder = tmp_path / "folder"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    same, _ = read(folder)
    mine = sorted((one.title, one.text, one.columns["source"].removeprefix(name)) for one in found)
    assert mine == sorted((one.title, one.text, one.columns["source"].removeprefix("folder")) for one in same)
    assert f"{name}/deep/well.docx" in {one.columns["source"] for one in found}


def test_archives_in_archives_are_read_three_deep(tmp_path):
    data = b"Innermost."
    inner = zipped({"a.txt": data, "z.zip": zipped({"a.txt": b"Too deep."})})
    found, ingest = of(tmp_path, "a.zip", zipped({"b.tgz": tarred({"c.zip": inner}, mode="w:gz")}))
    assert [(one.text, one.columns["source"].split("a.zip/", 1)[1]) for one in found] == [
        ("Innermost.", "b.tgz/c.zip/a.txt")
    ]
    assert passed(ingest) == {"archives in archives": 1}


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_names_that_lead_out_are_left_out_and_nothing_is_written(pack, tmp_path):
    files = {
        "../out.txt": b"x",
        "/abs.txt": b"x",
        "a/../../b.txt": b"x",
        ".hidden.txt": b"x",
        "p.png": b"x",
        "ok.txt": b"Good.",
    }
    (tmp_path / "in").mkdir()
    found, ingest = of(tmp_path / "in", "a.zip" if pack is zipped else "a.tar", pack(files))
    assert [one.text for one in found] == ["Good."]
    assert passed(ingest) == {"unsafe names": 3, "hidden": 1, ".png": 1}
    assert [path.name for path in tmp_path.rglob("*.txt")] == []


def test_links_and_devices_are_left_out(tmp_path):
    data = tarred({"ok.txt": b"Good."}, link=tarfile.SYMTYPE, hard=tarfile.LNKTYPE, pipe=tarfile.FIFOTYPE)
    found, ingest = of(tmp_path, "a.tar", data)
    assert [one.text for one in found] == ["Good."]
    assert passed(ingest) == {"links and devices": 3}


def test_a_file_that_is_damaged_costs_itself(tmp_path):
    damaged = bytearray(zipped({"a.txt": b"First " * 50, "b.docx": b"no document", "c.txt": b"Last."}))
    damaged[45] ^= 255
    found, ingest = of(tmp_path, "a.zip", bytes(damaged))
    assert [one.text for one in found] == ["Last."]
    assert ingest.counts["files_unreadable.the file is damaged"] == 2


def test_what_is_encrypted_is_named(tmp_path):
    locked = bytearray(zipped({"a.txt": b"Secret.", "b.txt": b"Open."}))
    for sign, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.find(sign) + flag] |= 1
    found, ingest = of(tmp_path, "a.zip", bytes(locked))
    assert [one.text for one in found] == ["Open."]
    assert ingest.counts["files_unreadable.the file has a password"] == 1


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_bomb_is_refused_at_every_depth(depth, tmp_path):
    data = zipped({"a.txt": b"First.", **{f"{number}.txt": bytes(40 << 20) for number in range(3)}})
    for _ in range(depth - 1):
        data = zipped({"inner.zip": data, "z.txt": b"Last."})
    if depth == 1:
        with pytest.raises(InputError, match="looks like a decompression bomb"):
            of(tmp_path, "a.zip", data)
        return
    (tmp_path / "good.txt").write_bytes(b"Good.")
    (tmp_path / "a.zip").write_bytes(data)
    found, ingest = read(tmp_path)
    assert [one.text for one in found] == ["First.", "Good."]
    assert ingest.counts["files_unreadable.this source looks like a decompression bomb"] == depth


@pytest.mark.parametrize(
    ("name", "data"), [("a.zip", b"PK\x03\x04nothing"), ("a.tar", b"x" * 600), ("a.tgz", b"\x1f\x8b")]
)
def test_what_is_no_archive_is_refused(name, data, tmp_path):
    with pytest.raises(InputError, match=r"damaged|incomplete"):
        of(tmp_path, name, data)


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_damaged_it_costs_its_files_and_nothing_else(pack, tmp_path):
    rng, data = random.Random(3), pack()
    for _ in range(25):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 8, 60])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "good.txt").write_bytes(b"Good.")
        (tmp_path / f"a.{'zip' if pack is zipped else 'tar'}").write_bytes(damaged)
        found, ingest = read(tmp_path)
        assert "Good." in [one.text for one in found]
        assert ingest.counts["documents_kept"] == len(found)


def test_attachments_are_read_where_that_is_asked(tmp_path):
    mail = (
        b"Message-ID: <a@b>\nSubject: Minutes\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n"
        b"--x\n\nSee there.\n"
        b'--x\nContent-Disposition: attachment; filename="../../m.md"\n\n# Mill\n\nIt turns.\n--x--\n'
    )
    found, ingest = of(tmp_path, "a.eml", mail)
    assert [one.text for one in found] == ["See there."]
    assert ingest.counts["parts_left_out.attachments"] == 1
    found, _ = of(tmp_path, "a.eml", mail, attachments=True)
    assert [(one.title, one.text) for one in found] == [("Minutes", "See there."), ("Mill", "It turns.")]
    assert found[1].columns["source"].endswith("a.eml/m.md")


def test_a_folder_of_mail_is_known_by_its_folders(tmp_path):
    for folder in ("cur", "new", "tmp", ".Sent/cur", ".Sent/new", ".Sent/tmp"):
        (tmp_path / "Mail" / folder).mkdir(parents=True)
    for name in ("cur/1.M5P1.host:2,S", "new/2.host", "tmp/3.host", ".Sent/cur/4.host:2,"):
        (tmp_path / "Mail" / name).write_bytes(b"Subject: " + name.encode() + b"\n\nText of " + name.encode())
    found, _ = read(tmp_path / "Mail")
    assert sorted(one.title for one in found) == [".Sent/cur/4.host:2,", "cur/1.M5P1.host:2,S", "new/2.host"]
