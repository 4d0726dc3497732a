"""The forty faults, the 23 classes that once broke, the ten promises, the kinds of `kinds.py`, and where each is checked.

What the tests of the project check already is named here and run, not written a second time: `make faults` runs those
tests too and counts them in the group `tests`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.faults.case import Case, Fault, Result
from tests.faults.kinds import KINDS
from tests.faults.world import ROOT

FORTY = {
    1: Fault(
        "kill -9 at every mutating system call of every stage",
        (
            "artifacts/test_crash.py::test_kill_at_every_mutating_call",
            "artifacts/test_crash.py::test_kill_at_every_mutating_call_of_two_renames",
            "artifacts/test_crash.py::test_kill_at_every_failpoint",
        ),
        "system calls of ingest, import and the publisher; failpoints of all stages",
    ),
    2: Fault(
        "kill -9 at random times in training, twice, at the end of an epoch",
        (
            "training/test_kill.py::test_killed_twice_at_random_moments",
            "training/test_exact_resume.py::test_a_training_resumes_exactly",
        ),
    ),
    3: Fault(
        "kill -9 while old checkpoints are removed",
        (
            "training/test_kill.py::test_killed_at_every_write_of_a_checkpoint",
            "artifacts/test_checkpoints.py::test_nothing_is_removed_until_the_pointer_is_in_place",
            "artifacts/test_checkpoints.py::test_killed_at_every_failpoint",
        ),
    ),
    4: Fault(
        "power loss",
        ("artifacts/test_writer.py::test_all_is_on_the_disk_before_anything_changes_place",),
        "by replay of a log of system calls: what was forced to the disk, and when; LazyFS is not used",
    ),
    5: Fault("disk full at each size", ("artifacts/test_disk_refuses.py::test_full_disk",)),
    6: Fault(
        "disk full only at the end, for a small file",
        ("artifacts/test_writer.py::test_an_error_that_a_library_swallowed_comes_back",),
    ),
    7: Fault(
        "EIO on write and on fsync",
        (
            "artifacts/test_disk_refuses.py::test_io_error_at_every_write_and_fsync",
            "artifacts/test_writer.py::test_a_failed_fsync_is_not_tried_again",
        ),
    ),
    8: Fault(
        "EIO on reading",
        (
            "artifacts/test_reader.py::test_a_disk_that_cannot_be_read_is_not_called_damage",
            "corpus/test_decompress.py::test_a_read_error_names_the_file_and_the_byte",
            "corpus/test_readers.py::test_a_read_error_is_not_taken_for_damage",
        ),
    ),
    9: Fault(
        "short writes, interrupted calls",
        (
            "artifacts/test_writer.py::test_short_writes_are_completed",
            "artifacts/test_hashing.py::test_short_reads_are_completed",
            "corpus/test_changing_files.py::test_a_file_that_changes_while_it_is_read_is_refused",
            "stages/test_changing_files.py::test_what_changes_while_it_is_read_is_refused",
        ),
    ),
    10: Fault(
        "read-only or forbidden output",
        ("artifacts/test_disk_refuses.py::test_no_permission", "cli/test_bad_inputs.py::test_no_permission"),
    ),
    11: Fault("a limit of file sizes", ("artifacts/test_disk_refuses.py::test_file_size_limit",)),
    12: Fault(
        "few descriptors",
        (
            "artifacts/test_reader.py::test_many_files_with_few_descriptors",
            "artifacts/test_table_faults.py::test_no_descriptors_leak",
        ),
    ),
    13: Fault(
        "SIGINT once and twice", ("stages/test_embed.py::test_what_a_stopped_run_embedded_is_not_embedded_again",)
    ),
    14: Fault("SIGTERM, SIGHUP", ("stages/test_kill.py::test_a_stop_signal_saves_the_words",)),
    15: Fault("closed pipes and streams", ("cli/test_output.py::test_a_reader_that_went_away_is_no_reason_to_stop",)),
    16: Fault(
        "a worker killed",
        (
            "training/test_distributed.py::test_killed_and_resumed",
            "training/test_distributed.py::test_if_the_first_cannot_save_the_others_hear_of_it",
        ),
        "stages work in threads, so only a training of several processes has workers",
    ),
    17: Fault(
        "the parent killed",
        note="stages start no processes; after every kill the suite looks for processes that are left",
    ),
    18: Fault(
        "two runs on one output, a stale lock",
        (
            "artifacts/test_publish.py::test_a_second_writer_is_told_at_once",
            "artifacts/test_publish.py::test_a_killed_writer_keeps_nobody_waiting",
            "artifacts/test_publish.py::test_a_stopped_writer_still_holds_it",
        ),
    ),
    19: Fault(
        "readers while an artifact is published",
        (
            "artifacts/test_reader.py::test_opening_while_generations_fly_by",
            "artifacts/test_reader.py::test_a_reader_stays_with_its_generation",
        ),
    ),
    20: Fault(
        "make: stopped, in parallel, with touched inputs",
        (
            "test_makefile.py::test_make_builds_what_the_config_says_once_and_agrees_with_run",
            "test_makefile.py::test_a_failed_stage_leaves_nothing_and_make_goes_on_from_there",
        ),
    ),
    21: Fault("a clock that jumps"),
    22: Fault("little memory", note="by ulimit -v and budgets; control groups need another machine"),
    23: Fault("a tiny /dev/shm"),
    24: Fault(
        "one line without an end", ("corpus/test_ingest.py::test_memory_is_flat",), "half a gigabyte, not a whole one"
    ),
    25: Fault(
        "millions of distinct words",
        ("tokens/test_counting.py::test_counts_of_any_size_of_memory_are_the_same",),
        "three millions, not twenty",
    ),
    26: Fault(
        "cut, empty and missing files", ("artifacts/test_reader.py::test_a_shortened_or_lengthened_file_is_found",)
    ),
    27: Fault(
        "one bit flipped",
        (
            "artifacts/test_reader.py::test_a_flipped_bit_is_found",
            "artifacts/test_manifest.py::test_a_change_anywhere_is_found",
            "artifacts/test_manifest.py::test_what_a_forged_manifest_says_of_an_input_is_refused",
            "storage/test_copies.py::test_a_damaged_copy_is_fetched_again_and_nothing_else",
        ),
    ),
    28: Fault("two artifacts mixed", ("stages/test_query.py::test_an_encoder_that_is_not_the_vectors_own_is_refused",)),
    29: Fault(
        "artifacts of other versions",
        (
            "artifacts/test_manifest.py::test_another_format_says_what_to_do",
            "pipeline/test_run.py::test_an_artifact_of_another_format_is_made_again",
        ),
    ),
    30: Fault(
        "crafted FAISS files", ("search/test_faiss_index.py::test_a_header_that_claims_more_than_the_file_is_refused",)
    ),
    31: Fault(
        "pickles",
        (
            "test_house.py::test_data_never_becomes_code",
            "engines/test_canaries.py::test_a_command_imports_nothing_of_the_working_folder",
            "engines/test_isolation.py::test_worker_processes_import_nothing_of_the_working_folder",
            "model/test_hf_folder.py::test_a_pickle_is_not_read_where_there_are_safetensors",
        ),
    ),
    32: Fault(
        "hostile tokenizers and weights",
        (
            "tokens/test_reading.py::test_a_pattern_that_may_run_very_long_is_named",
            "tokens/test_reading.py::test_ids_that_would_need_a_huge_table_are_refused",
            "model/test_hf_folder.py::test_weights_that_do_not_fit_are_refused_by_name",
        ),
    ),
    33: Fault(
        "text in every wrong encoding",
        (
            "corpus/test_decode.py::test_replace_is_what_python_replaces_in_any_blocks",
            "stages/test_embed.py::test_hostile_texts",
        ),
    ),
    34: Fault(
        "nothing to learn from, nothing to find",
        (
            "corpus/test_ingest.py::test_nothing_to_keep_is_an_error_that_says_what_was_seen",
            "cli/test_bad_inputs.py::test_words_too_rare_for_a_vector",
            "cli/test_bad_inputs.py::test_more_neighbours_than_there_are",
        ),
    ),
    35: Fault(
        "documents longer than the model",
        ("encoders/test_transformer_encoder.py::test_texts_that_differ_only_far_behind_the_first_window_differ",),
    ),
    36: Fault(
        "numbers that are none",
        (
            "training/test_loop.py::test_a_loss_that_is_not_finite_stops_the_run_and_names_the_last_good_checkpoint",
            "stages/test_embed.py::test_a_vector_that_is_not_finite_names_its_text_and_keeps_the_old_artifact",
            "stages/test_index.py::test_a_poisoned_vector_leaves_the_old_index",
        ),
    ),
    37: Fault(
        "bombs and archives",
        ("corpus/test_decompress.py::test_a_bomb_is_refused_while_it_grows",),
        "archives and XML are not read at all",
    ),
    38: Fault(
        "planted links",
        (
            "artifacts/test_publish.py::test_a_planted_link_beside_the_target_is_removed_not_followed",
            "artifacts/test_publish.py::test_a_planted_link_is_not_followed",
            "artifacts/test_reader.py::test_a_link_is_never_followed",
        ),
    ),
    39: Fault(
        "the web page",
        (
            "pages/test_word_map.py::test_words_are_data_whatever_they_are",
            "pages/test_word_map.py::test_only_the_pages_own_style_and_script_may_run_and_nothing_is_fetched",
        ),
        "does not apply: nothing is served yet; the map, which is a page, is checked",
    ),
    40: Fault(
        "what leaves: terminals, tables, secrets",
        ("cli/test_output.py::test_no_control_character_reaches_the_terminal",),
        "no table for spreadsheets is written",
    ),
}

CLASSES = {
    1: "closed standard streams",
    2: "a Parquet bomb",
    3: "names of files that forge rows and errors",
    4: "a stage named out of workdir",
    5: "a folder that lost its manifest",
    6: "SIGINT during imports",
    7: "--where nested deep",
    8: "JSON nested deep",
    9: "TOML nested deep",
    10: "damaged .npy headers",
    11: "a pipe named manifest.json",
    12: "endless files",
    13: "little address space",
    14: "forged manifests",
    15: "forged files",
    16: "a forged size of a model",
    17: "mutated FAISS files",
    18: "errors that repeat their input",
    19: "no space, and no file named",
    20: "a byte order mark in a query",
    21: "odd environment variables",
    22: "refusals after the work",
    23: "a pattern that backtracks",
}

PROMISES = {
    1: "kill it any time",
    2: "resume is exact",
    3: "more workers, same bytes",
    4: "no silent loss",
    5: "no silent corruption",
    6: "a failed run costs nothing you had",
    7: "data is never code",
    8: "bounded memory",
    9: "a good citizen in shells",
    10: "safe to show",
}


def listing(cases: list[Case]) -> str:
    """Every case, and for each fault, class and promise the cases and tests that check it."""
    lines = [f"{case.name}{'  (fast)' if case.fast else ''}" for case in cases]
    lines += ["", "The forty faults:"]
    for number, fault in FORTY.items():
        lines.append(f"{number:3} {fault.what}" + (f" ({fault.note})" if fault.note else ""))
        lines += [f"      {place}" for place in _places(cases, str(number))]
        lines += [f"      tests/{test}" for test in fault.tests]
    for kind, fault in KINDS.items():
        lines += ["", f"{kind}: {fault.what}", *(f"      {place}" for place in _places(cases, kind))]
        lines += [f"      tests/{test}" for test in fault.tests]
    for title, letter, table in (("The classes that once broke:", "C", CLASSES), ("The ten promises:", "P", PROMISES)):
        lines += ["", title]
        for number, what in table.items():
            lines.append(f"{letter}{number:<3} {what}")
            lines += [f"      {place}" for place in _places(cases, f"{letter}{number}")]
    return "\n".join(lines)


def _places(cases: Iterable[Case], number: str) -> list[str]:
    """`group/kind` of the cases that cover a number, and how many they are."""
    found: dict[str, int] = {}
    for case in cases:
        if number in case.covers:
            kind = "/".join(case.name.split("/")[:2])
            found[kind] = found.get(kind, 0) + 1
    return [f"{kind}  {count}" for kind, count in found.items()]


def existing_results(only: list[str]) -> list[Result]:
    """Run the tests that the table names; what came of each."""
    names = sorted({test for fault in (*FORTY.values(), *KINDS.values()) for test in fault.tests})
    if only:
        wanted = [name.removeprefix("tests/") for name in only if name.startswith("tests")]
        names = [name for name in names if any(name.startswith(start.removeprefix("tests")) for start in wanted)]
    if not names:
        return []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not gpu",
            f"--junitxml={report}",
        ]
        done = subprocess.run(
            [*command, *(f"tests/{name}" for name in names)], cwd=ROOT, capture_output=True, text=True, check=False,
            env={name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"},
        )  # fmt: skip
        if not report.exists():
            return [
                Result("tests/all", "", "broken", f"the tests did not run: {done.stdout[-300:]}{done.stderr[-300:]}")
            ]
        return _of_report(report, names)


def _of_report(report: Path, names: list[str]) -> list[Result]:
    results = []
    for test in ET.parse(report).iter("testcase"):
        name = f"tests/{test.get('classname', '').removeprefix('tests.').replace('.', '/')}.py::{test.get('name', '')}"
        failed = [child for child in test if child.tag in ("failure", "error")]
        skipped = [child for child in test if child.tag == "skipped"]
        verdict = "broken" if failed else "skipped" if skipped else "held"
        why = str((failed or skipped or [test])[0].get("message", ""))[:300] if failed or skipped else ""
        results.append(Result(name, "", verdict, why, f"python -m pytest '{name}'", float(test.get("time", 0))))
    ran = {result.case.split("[")[0].removeprefix("tests/") for result in results}
    results += [Result(f"tests/{name}", "", "broken", "the test is not there") for name in names if name not in ran]
    return results
