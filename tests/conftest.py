"""the environment -> one without real models, keys or settings of the developer; slow tests get a marker."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import tests.stores  # noqa: F401 (may put all indexes into PostgreSQL)
from kumihimo.core.records import Document
from kumihimo.readers.file_reader import FileReader
from tests.fake_server import FakeServer, run_fake_server

TESTS = Path(__file__).parent
COSTS = TESTS / "costs.json"  # CPU seconds of each file in `make test`; `make costs` measures them
COSTS_KNOWN: dict[str, float] = json.loads(COSTS.read_text("utf-8"))
SLOW = 0.5  # CPU seconds of a file that `make quick` leaves out

# Files and tests that `make nightly` alone runs, and how many of their items `make test` runs too.
NIGHTLY = {
    "tests/app/test_batch.py::test_a_batch_on_another_server_can_be_given_up": 0,
    "tests/app/test_batch.py::test_a_document_that_changes_between_submitting_and_collecting": 0,
    "tests/app/test_batch.py::test_a_job_whose_id_was_lost_with_the_process_is_found_again": 0,
    "tests/app/test_batch.py::test_a_process_that_is_killed_while_it_submits_pays_nothing_twice": 0,
    "tests/app/test_batch.py::test_a_request_that_is_refused": 0,
    "tests/app/test_batch.py::test_an_update_by_batches_asks_no_more_than_direct_requests": 0,
    "tests/app/test_batch.py::test_batches_build_the_same_index": 1,
    "tests/app/test_batch.py::test_caps_hold_when_a_batch_is_submitted": 0,
    "tests/app/test_batch.py::test_files_of_a_batch": 0,
    "tests/app/test_batch.py::test_half_a_batch": 0,
    "tests/app/test_batch.py::test_methods_of_a_batch_that_waits": 0,
    "tests/app/test_batch.py::test_methods_of_a_batch_that_was_finished_directly_do_not_come_back": 0,
    "tests/app/test_batch.py::test_requests_that_fail_in_a_batch": 0,
    "tests/app/test_batch.py::test_two_processes_with_one_cache_submit_each_request_once": 0,
    "tests/app/test_check.py::test_damage_is_found_and_repaired": 6,
    "tests/app/test_erasure.py::test_a_reader_of_an_earlier_state_is_named_and_the_erasure_is_repeated": 0,
    "tests/app/test_erasure.py::test_what_is_forgotten": 1,
    "tests/app/test_facade.py::test_a_reader_sees_whole_builds_only": 0,
    "tests/app/test_facade.py::test_a_reading_keeps_its_vectors": 0,
    "tests/app/test_facade.py::test_asking_without_vectors_says_what_to_do": 1,
    "tests/app/test_facade.py::test_switching_methods_there_and_back": 1,
    "tests/app/test_facade.py::test_vectors_that_are_lost_are_made_again": 1,
    "tests/app/test_fingerprints.py": 0,
    "tests/app/test_first_use.py::test_a_question_waits": 0,
    "tests/app/test_import_store.py::test_importing_again": 0,
    "tests/app/test_method_subsets.py::test_a_set_of_methods_is_planned_and_built": 4,
    "tests/app/test_plans.py::test_steps_that_share_a_conversation_are_planned_once": 2,
    "tests/app/test_plans.py::test_the_total_of_a_build_lies_within_a_narrow_plan": 0,
    "tests/app/test_question_pool.py::test_a_cancelled_question": 0,
    "tests/app/test_question_pool.py::test_a_closed_room": 0,
    "tests/app/test_question_pool.py::test_a_killed_process_fails_its_question_and_another_takes_its_place": 0,
    "tests/app/test_question_pool.py::test_a_question_of_a_program": 0,
    "tests/app/test_question_pool.py::test_errors_travel_between_processes": 1,
    "tests/app/test_question_pool.py::test_rights_go_with_a_question": 0,
    "tests/app/test_question_pool.py::test_the_answers_are_those_of_the_facade": 1,
    "tests/app/test_questions.py::test_a_question_is_answered_from_the_build": 4,
    "tests/app/test_questions.py::test_nothing_is_read_once": 4,
    "tests/app/test_ray_executor.py::test_ray_makes": 0,
    "tests/app/test_ray_executor.py::test_workers_build_the_same_index": 0,
    "tests/app/test_remote_sources.py::test_a_watch_fetches_at_first_only": 0,
    "tests/app/test_remote_sources.py::test_a_watch_goes_on_if_its_first_build_fails": 0,
    "tests/app/test_remote_sources.py::test_known_addresses_keep_their_rows_offline": 0,
    "tests/app/test_snapshot.py::test_lines_of_a_long_file_are_counted_once": 0,
    "tests/app/test_sparql.py::test_concurrent_queries": 0,
    "tests/app/test_switching_models.py::test_a_build_by_a_model_that_was_capped_goes_on_by_it": 0,
    "tests/app/test_switching_models.py::test_a_model_that_was_given_up_is_not_asked": 0,
    "tests/app/test_switching_models.py::test_an_alias_is_followed_and_taken_back": 0,
    "tests/app/test_watch.py::test_changes_of_files": 0,
    "tests/app/test_watch.py::test_without_watchfiles": 0,
    "tests/cli/test_cli.py::test_a_full_disk": 0,
    "tests/cli/test_cli.py::test_a_mistake_is_one_line_that_says_what_to_do": 8,
    "tests/cli/test_cli.py::test_a_reader_that_has_seen_enough": 0,
    "tests/cli/test_cli.py::test_closed_streams": 0,
    "tests/core/test_answer.py::test_the_work_grows": 0,
    "tests/evaluate/test_blinding.py::test_work_grows": 0,
    "tests/evaluate/test_report.py::test_words_name_cheaper_systems": 0,
    "tests/evaluate/test_report.py::test_words_of_a_clear_winner": 0,
    "tests/evaluate/test_rouge.py::test_many_words": 0,
    "tests/evaluate/test_study_plan.py": 0,
    "tests/index/rules/test_ner.py::test_work_grows_with_the_text": 0,
    "tests/index/rules/test_ner_tagged.py::test_work_grows_with_the_text": 0,
    "tests/index/test_communities.py::test_another_hash_seed_changes_nothing": 0,
    "tests/index/test_communities.py::test_the_order_of_rows_does_not_count": 1,
    "tests/index/test_data_refs.py::test_work_grows": 0,
    "tests/index/test_documents.py::test_the_work_for_many_sources_grows_with_their_number": 0,
    "tests/index/test_entity_resolution.py::test_ten_thousand_entities_are_not_all_compared": 0,
    "tests/index/test_extraction_parser.py::test_work_grows": 0,
    "tests/index/test_metadata_fields.py::test_work_grows": 0,
    "tests/laws/test_graph.py::test_another_process_makes_the_same": 0,
    "tests/laws/test_graph.py::test_deleted_is_never_added": 0,
    "tests/laws/test_kill.py": 0,
    "tests/laws/test_links.py::test_a_hostile_document_leaks_into_no_other": 1,
    "tests/laws/test_mutants.py::test_mutant_is_caught": 2,
    "tests/laws/test_mutants.py::test_the_engine_itself_passes": 0,
    "tests/laws/test_real.py::test_building_again_changes_nothing": 0,
    "tests/laws/test_real.py::test_deleted_is_removed": 0,
    "tests/laws/test_real.py::test_one_after_another_is_all_at_once": 0,
    "tests/laws/test_real.py::test_rebuilding_all_under_a_new_version_changes_nothing": 0,
    "tests/laws/test_real.py::test_removed_is_never_added": 0,
    "tests/laws/test_real.py::test_the_order_and_the_seed_change_nothing": 0,
    "tests/laws/test_refresh.py::test_a_stopped_build_leaves_what_was_remembered": 0,
    "tests/laws/test_rights.py::test_lists_are_those_of_an_index_of_the_visible_documents": 2,
    "tests/laws/test_rights.py::test_no_prompt_tells_of_hidden_documents": 2,
    "tests/laws/test_rights.py::test_no_response_tells_of_hidden_documents": 2,
    "tests/laws/test_rights.py::test_tables_hold_what_the_visible_documents_make": 4,
    "tests/laws/test_rights.py::test_the_graph_is_browsed_as_an_index_of_the_visible_documents": 2,
    "tests/laws/test_rights_of_imports.py::test_no_row_and_no_answer_tells_of_hidden_documents": 4,
    "tests/laws/test_stopped.py::test_killed_at_any_call": 0,
    "tests/laws/test_stopped.py::test_what_is_missing_is_listed_and_the_next_run_completes_it": 1,
    "tests/laws/test_summaries.py::test_every_history_ends_as_a_fresh_build_and_asks_for_what_changed_alone": 2,
    "tests/llm/test_response_body.py::test_the_work": 0,
    "tests/llm/test_shared_cache.py": 0,
    "tests/methods/test_braid.py::test_results_do_not_depend_on_hash_seed": 0,
    "tests/methods/test_wide.py::test_the_prompts_are_bounded": 1,
    "tests/page/test_page.py::test_a_browser_shows_it": 0,
    "tests/page/test_page.py::test_a_page_of_many_is_not_large": 0,
    "tests/page/test_page.py::test_a_text_is_cut": 0,
    "tests/page/test_page.py::test_ten_thousand": 0,
    "tests/page/test_page.py::test_the_work_of_a_layout_grows_with_the_graph": 0,
    "tests/rdf/test_store.py::test_two_processes": 0,
    "tests/rdf/test_triples.py::test_any_text_is_read_back_unchanged": 0,
    "tests/readers/remote/test_crawl.py::test_a_hostile_page": 5,
    "tests/readers/remote/test_crawl.py::test_a_page_is_read_within": 0,
    "tests/readers/remote/test_crawl.py::test_a_page_over_the_limit": 0,
    "tests/readers/test_attacks.py::test_what_is_nested_deeper_than_the_stack": 0,
    "tests/readers/test_boilerplate.py::test_the_work_for_a_page_grows_with_its_length": 0,
    "tests/readers/test_bombs.py::test_a_bomb_does_not_stop_the_file_after_it": 8,
    "tests/readers/test_limits.py::test_memory_that_earlier_files_use": 0,
    "tests/readers/test_oddities.py::test_the_work": 0,
    "tests/readers/test_pdf.py::test_many_threads": 0,
    "tests/readers/test_readers.py::test_one_line_of_two_million_characters": 15,
    "tests/search/test_contract.py::test_another_process_finds_the_same": 0,
    "tests/server/api/test_api_documents.py::test_a_file_with_hidden_parts_is_not_removed_whole": 1,
    "tests/server/test_browser.py": 0,
    "tests/server/test_browser_answers.py": 0,
    "tests/server/test_event_loop.py::test_the_work_for_a_reply_grows": 1,
    "tests/server/test_money.py::test_a_removal": 0,
    "tests/server/test_money.py::test_what_fails": 1,
    "tests/server/test_money.py::test_what_is_left_is_charged": 1,
    "tests/server/test_proxy_path.py": 0,
    "tests/test_package.py::test_each_hint_runs": 0,
    "tests/server/test_run.py::test_a_build_ends_with_its_server": 1,
    "tests/server/test_run.py::test_a_second_signal": 0,
    "tests/server/test_run.py::test_one_signal_ends_a_server_without_a_traceback": 1,
    "tests/server/test_run.py::test_processes_end_at_once": 0,
    "tests/server/test_warm_up.py": 0,
    "tests/storage/test_postgres.py::test_a_killed_build_changes_nothing": 0,
    "tests/storage/test_postgres.py::test_a_lost_connection_loses_nothing": 1,
    "tests/storage/test_postgres.py::test_a_plan_leaves_no_index": 0,
    "tests/storage/test_postgres.py::test_a_reader_of_an_earlier_state_stops_the_forgetting": 0,
    "tests/storage/test_postgres.py::test_an_index_is_copied_there_and_back": 0,
    "tests/storage/test_postgres.py::test_many_vectors_are_found_by_their_index": 0,
    "tests/storage/test_postgres.py::test_one_role": 0,
    "tests/storage/test_postgres.py::test_tables_that_cannot_be_rewritten_name_the_remedy": 0,
    "tests/storage/test_postgres.py::test_what_is_forgotten": 0,
    "tests/test_adding_a_method.py": 0,
    "tests/test_benchmarks.py": 0,
    "tests/test_docs.py::test_commands_print_what_a_page_says": 0,
    "tests/test_docs.py::test_messages_are_those_of_the_source": 0,
    "tests/test_docs.py::test_python_runs": 4,
    "tests/test_docs.py::test_screens_are_what_a_person_sees": 0,
    "tests/test_docs_requests.py": 0,
    "tests/test_docs_transcripts.py": 0,
    "tests/test_expressions.py::test_all_expressions": 0,
    "tests/test_faults.py::test_a_fault_without_end": 3,
    "tests/test_faults.py::test_ctrl_c_does_not_wait_for_a_silent_server": 0,
    "tests/test_faults.py::test_texts_that_cannot_be_embedded": 3,
    "tests/test_faults.py::test_what_is_set_wrong": 3,
    "tests/test_figures.py": 0,
    "tests/test_gallery.py": 0,
    "tests/test_licences.py": 0,
    "tests/test_package.py": 0,
    "tests/test_platforms.py": 0,
    "tests/test_plugins.py::test_it_is_listed_and_set": 1,
    "tests/test_plugins.py::test_it_keeps_the_laws": 0,
    "tests/test_plugins.py::test_the_docs_show_the_plugin": 0,
    "tests/test_plugins.py::test_two_lines_of_a_user_are_typed": 0,
    "tests/test_plugins.py::test_without_it_the_index_opens_and_says_what_is_missing": 0,
    "tests/test_recorded.py": 0,
    "tests/test_simulation.py": 0,
    "tests/text/test_sentences.py::test_work_grows": 0,
    "tests/text/test_translation.py::test_wide_characters": 1,
    "tests/workers/test_workers.py::test_processor_time_is_limited_by_request": 0,
}


# They run first, so that no worker is left with a long one.
LONG = (
    "tests/server/test_browser.py",
    "tests/test_recorded.py",
    "tests/test_benchmarks.py",
    "tests/test_docs.py",
    "tests/laws/",
    "tests/cli/",
    "tests/app/",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip modules without an example in a docstring, and slow files of tests where these are left out."""
    if collection_path.suffix != ".py":
        return None
    if TESTS not in collection_path.parents:
        return True if ">>>" not in collection_path.read_text("utf-8") else None
    name = collection_path.relative_to(TESTS.parent).as_posix()
    seconds = COSTS_KNOWN.get(name, 0 if NIGHTLY.get(name) != 0 else SLOW + 1)
    return True if seconds > SLOW and "not slow" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort and mark the tests; those of a file that takes long are slow."""
    items.sort(key=lambda item: next((n for n, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG)))
    counts, nightly = Counter[str](), tuple(NIGHTLY)
    for item in items:
        if COSTS_KNOWN.get(item.nodeid.partition("::")[0], 0) > SLOW:
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(nightly):
            name = next(name for name in nightly if item.nodeid.startswith(name))
            counts[name] += 1
            if counts[name] > NIGHTLY[name]:
                item.add_marker(pytest.mark.nightly)


_costs: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="write the CPU seconds of each file into tests/costs.json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count the CPU seconds of a test, with those of its child processes."""
    before = _cpu_seconds()
    result = yield
    _costs[item.nodeid.partition("::")[0]] += _cpu_seconds() - before
    return result


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the costs of a worker to the first process."""
    if output := getattr(session.config, "workeroutput", None):
        output["costs"] = dict(_costs)
    elif session.config.getoption("--costs"):
        costs = {name: round(seconds, 1) for name, seconds in sorted(_costs.items())}
        COSTS.write_text(json.dumps(costs, indent=1) + "\n", "utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for name, seconds in getattr(node, "workeroutput", {}).get("costs", {}).items():
        _costs[name] += seconds


def pytest_collection_finish() -> None:
    """Exempt the tests from garbage collection: there are so many that each collection takes long."""
    gc.freeze()


def pytest_configure() -> None:
    """Keep compiled code, which each process would compile again; collect garbage seldom; let children hear Ctrl-C.

    No example fails because the machine is busy. `make test` draws the same examples each time, `make nightly` others.
    """
    slow = [hypothesis.HealthCheck.too_slow]
    is_gate = "HISTORIES" in os.environ
    hypothesis.settings.register_profile("kumihimo", deadline=None, suppress_health_check=slow, derandomize=is_gate)
    hypothesis.settings.load_profile("kumihimo")
    gc.set_threshold(10_000, 20, 20)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import the test modules in another order in each worker.

    Each worker then compiles its part of them and reads the parts that the others have compiled.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker and session.config.args == session.config.getini("testpaths"):
        paths = [path for path in sorted(TESTS.rglob("test_*.py")) if not pytest_ignore_collect(path, session.config)]
        names = [".".join(path.relative_to(TESTS.parent).with_suffix("").parts) for path in paths]
        first = int(worker["workerid"].removeprefix("gw")) * len(names) // worker["workercount"]
        for name in names[first:] + names[:first]:
            with suppress(Exception, pytest.skip.Exception):  # pytest reports it
                import_module(name)


@pytest.fixture(scope="session", autouse=True)
def offline(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Allow only servers on this machine, for this process and its children, and the trust of no developer."""
    for name in [name for name in os.environ if name.startswith(("KUMI_", "OPENAI_"))]:
        del os.environ[name]
    os.environ |= {"KUMI_OFFLINE": "1", "LC_ALL": "C.UTF-8"}
    os.environ["XDG_CONFIG_HOME"] = os.environ["APPDATA"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="session", autouse=True)
def examples_are_read_once() -> Iterator[None]:
    """Read each file of examples/ once; a child process for each index would take a third of a second."""
    read = FileReader._read_in_worker
    examples = {path.stat().st_size for path in (TESTS.parent / "examples").iterdir() if path.is_file()}
    known: dict[object, list[Document]] = {}

    def read_once(reader: FileReader, path: Path, uri: str) -> list[Document]:
        stat = path.stat()
        if stat.st_size not in examples or reader._added:
            return read(reader, path, uri)
        key = hashlib.sha256(path.read_bytes()).digest(), stat.st_mtime_ns, path.name, uri, reader.limits
        if key not in known:
            known[key] = read(reader, path, uri)
        return list(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileReader, "_read_in_worker", read_once)
        yield


@pytest.fixture(scope="session")
def one_server() -> Iterator[FakeServer]:
    with run_fake_server() as server:
        yield server


@pytest.fixture
def server(one_server: FakeServer) -> FakeServer:
    """A model server over HTTP, as it is when nothing is wrong with it."""
    one_server.configure(**USUAL)
    one_server.reset()
    return one_server


USUAL = {
    "latency": 0.0,
    "key": "",
    "models": [],
    "refuses": [],
    "window": 0,
    "usage": True,
    "cached": 0.0,
    "retry_after": 0.0,
    "faults": {},
    "drip": 1.0,
    "down": False,
    "replies": [],
    "seed": 0,
    "dimensions": 32,
    "reads_graph": False,
    "batches": True,
    "batch_polls": 0,
    "batch_end": "completed",
    "batch_changes": {},
    "batch_lost": 0,
}
