"""Kinds of faults that were found by trying what nobody had tried, and where each is checked: the cases of this suite that
cover it, and tests of the project, which `make faults` runs too."""

from tests.faults.case import Fault

KINDS = {
    # data is never code
    "K1": Fault(
        "files of Python, settings and plugins in the working folder",
        (
            "engines/test_canaries.py::test_a_command_imports_nothing_of_the_working_folder",
            "engines/test_isolation.py::test_a_path_without_the_working_folder",
        ),
        "every command and engine: the slow tests of test_canaries.py, which take most of an hour",
    ),
    # nothing is lost in silence
    "K2": Fault(
        "texts without a vector, and a day's texts with new words",
        (
            "stages/test_without_vector.py::test_an_index_of_each_kind_is_as_without_them",
            "stages/test_without_vector.py::test_a_daily_update_with_a_new_word",
        ),
    ),
    "K3": Fault(
        "an update that names some of its sources",
        ("stages/test_ingest_update.py::test_an_update_that_would_lose_a_living_source_is_refused_and_names_it",),
    ),
    "K4": Fault(
        "one field that is title, id and text; keys and columns that come twice",
        (
            "stages/test_fields_of_records.py::test_one_field_is_title_and_id_and_label_and_a_column",
            "stages/test_fields_of_records.py::test_a_key_that_comes_twice_is_refused_with_its_line_or_counted",
            "stages/test_fields_of_records.py::test_a_column_that_a_table_has_twice_is_refused",
        ),
    ),
    "K5": Fault(
        "a Markdown file that begins with a rule, and front matter",
        (
            "corpus/test_front_matter.py::test_what_does_not_read_as_front_matter_is_text",
            "corpus/test_front_matter.py::test_fields_are_columns_of_every_section_and_files_may_differ",
        ),
    ),
    "K6": Fault(
        "HTML whose headings do not end, processing instructions, encodings of a declaration",
        (
            "corpus/test_html_words.py::test_every_word_of_a_page_is_there_once_and_none_is_glued_to_another",
            "corpus/test_html_words.py::test_a_title_ends_at_the_first_block_in_it",
            "corpus/test_html_words.py::test_an_xml_declaration_names_the_encoding_of_a_page",
        ),
    ),
    "K7": Fault(
        "numbers that are none, among fields, scores and conditions",
        (
            "stages/test_fields_of_records.py::test_numbers_that_are_none_are_left_empty_and_counted",
            "stages/test_label_kinds.py::test_what_is_no_score_makes_no_classes_of_scores_and_is_left_out",
        ),
    ),
    "K8": Fault(
        "copies of a bucket's objects that are cut, changed or gone; objects beside another's manifest",
        (
            "storage/test_copies.py::test_a_copy_whose_hashes_nobody_knows_is_not_trusted",
            "storage/test_copies.py::test_what_lies_beside_anothers_manifest_is_read",
            "storage/test_buckets.py::test_a_range_of_an_object_that_changed_is_refused",
        ),
    ),
    "K9": Fault(
        "a file that changes while it is read",
        ("corpus/test_changing_files.py::test_a_file_that_changes_between_its_hash_and_its_reading_is_refused",),
        "the other tests are named with short reads (9)",
    ),
    "K10": Fault(
        "mail, RTF and other files that only look like text; UTF-16 and UTF-32",
        (
            "corpus/test_not_text.py::test_it_is_refused_where_it_is_named_and_passed_over_in_a_folder",
            "corpus/test_not_text.py::test_wide_encodings_are_named_with_and_without_a_mark",
        ),
    ),
    "K11": Fault(
        "repeats under other ids, the only document, a great many prefixes",
        (
            "stages/test_records.py::test_records_that_say_the_same_are_other_records_where_they_have_ids",
            "stages/test_ingest_update.py::test_all_documents_are_never_held_out",
        ),
    ),
    # never another's answer
    "K12": Fault(
        "a program that goes to another folder, and two at work in two threads",
        (
            "web/test_refusals.py::test_a_program_that_works_elsewhere_is_answered_from_where_it_was",
            "pipeline/test_run.py::test_two_pipelines_of_the_same_names_run_in_two_threads",
        ),
    ),
    "K13": Fault(
        "the page: its address, filters, right-to-left text, suggestions",
        (
            "web/test_browser.py::test_the_index_stays_in_the_address",
            "web/test_browser.py::test_filters_follow_the_generation",
            "web/test_browser.py::test_right_to_left_text_keeps_its_order_where_words_are_marked",
            "web/test_browser.py::test_a_suggestion_replaces_the_word_that_was_typed",
            "web/test_search_api.py::test_chosen_values_of_a_column_are_alternatives_and_columns_must_all_fit",
        ),
    ),
    "K14": Fault("blank lines among questions", ("cli/test_input_lines.py::test_every_line_has_its_answer",)),
    "K15": Fault(
        "requests that repeat a parameter or cannot be read, and texts without a vector",
        (
            "web/test_refusals.py::test_parameters_that_repeat_or_cannot_be_read_are_named",
            "web/test_refusals.py::test_a_text_without_a_vector_gets_no_vector_of_zeros",
        ),
    ),
    # words as they stand
    "K16": Fault(
        "words of one letter, codes, marks, signs nobody sees, sequences of terminals, Hangul",
        (
            "search/test_word_rules.py::test_words_are_found_as_they_stand",
            "search/test_word_rules.py::test_hostile_words_are_bounded",
            "tokens/test_words.py::test_words_are_letters_with_inner_marks_and_numbers",
            "tokens/test_words.py::test_runs_stand_where_their_words_come_from",
            "corpus/test_decode.py::test_what_drives_a_terminal_is_no_text",
        ),
    ),
    "K17": Fault(
        "languages that are recognised, and those that are not",
        (
            "search/test_word_rules.py::test_languages_are_recognised_by_their_small_words",
            "search/test_word_rules.py::test_nothing_is_guessed_where_no_language_stands_out",
            "stages/test_index_lexical.py::test_endings_are_kept_where_that_finds_more",
        ),
    ),
    # bounded and alive
    "K18": Fault(
        "a served artifact that is replaced again and again",
        (
            "web/test_swaps.py::test_twenty_swaps_cost_nothing",
            "web/test_swaps.py::test_a_replaced_generation_is_given_back_at_once",
            "stages/test_given_back.py::test_what_was_opened_and_used_is_given_back",
            "stages/test_given_back.py::test_what_remembers_words_keeps_nobody_in_memory",
        ),
    ),
    "K19": Fault(
        "a thread of the server that ends, slow work that fails, no descriptors, a start that cannot be",
        (
            "web/test_batching.py::test_whoever_waits_or_comes_later_is_answered_when_the_thread_ends",
            "web/test_batching.py::test_an_error_of_slow_work_is_kept_for_whoever_waited_and_then_tried_again",
            "web/test_refusals.py::test_without_descriptors_it_says_so_once_and_goes_on_afterwards",
            "web/test_refusals.py::test_a_server_that_cannot_start_says_so",
        ),
    ),
    "K20": Fault(
        "little address space, of every command",
        ("cli/test_address_space.py::test_what_is_said_to_be_enough_is",),
    ),
    "K21": Fault(
        "stderr that is full or closed, streams and arguments in other encodings",
        (
            "cli/test_streams.py::test_no_room_for_messages_of_any_command",
            "cli/test_streams.py::test_the_ends_of_programs",
            "cli/test_strange_names.py::test_names_of_files_that_are_no_utf_8",
            "cli/test_strange_names.py::test_questions_that_are_no_utf_8",
        ),
    ),
    "K22": Fault(
        "settings that no request can hold, and whatever a library of stores raises",
        (
            "storage/test_buckets.py::test_settings_that_no_request_can_hold_are_refused_by_name",
            "storage/test_buckets.py::test_whatever_the_library_raises_is_an_error_of_ours",
            "artifacts/test_manifest.py::test_what_a_forged_manifest_says_of_a_file_is_refused",
        ),
    ),
    "K23": Fault(
        "Ray: where it listens, what it leaves, an address where nobody is",
        (
            "engines/test_isolation.py::test_an_address_where_nobody_listens_is_refused_at_once",
            "engines/test_isolation.py::test_a_ray_of_ones_own_imports_nothing_listens_on_the_loopback_and_leaves_nothing",
            "engines/test_engines.py::test_a_stop_signal_leaves_no_process",
            "engines/test_engines.py::test_the_next_ray_removes_what_a_killed_one_left",
        ),
    ),
    "K24": Fault(
        "Ctrl-C in a program that calls the library", ("test_stopping.py::test_only_ctrl_c_is_a_keyboard_interrupt",)
    ),
    "K25": Fault(
        "a line sep=; before a table, one control character, words of SQL as names of fields",
        (
            "corpus/test_said_delimiter.py::test_the_line_is_understood",
            "corpus/test_decode.py::test_the_mark_that_ends_a_text_in_dos_is_no_text_and_is_counted",
            "search/test_filters.py::test_every_word_of_sql_is_a_column",
        ),
    ),
    # questions with known answers
    "K26": Fault(
        "files of questions for `evaluate search` that are none",
        ("stages/test_evaluate_search.py::test_files_that_are_none",),
    ),
}
"""A kind → what it is, and the tests that check it."""
