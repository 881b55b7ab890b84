"""What the guides promise of security, databases and deployments: each promise names the tests that hold it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import spdist

ROOT = Path(__file__).parents[2]
#: Page → heading → what a promise begins with → the tests that hold it, as file below tests/ and function.
PROMISES: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "guides/security.md": {
        "Passwords and users": {
            "No built-in user, no default password": (
                "cluster/test_api.py::test_a_node_without_users_does_not_listen",
                "cluster/test_api.py::test_passwords_are_kept_as_hashes_only",
                "test_config.py::test_a_password_is_a_reference_and_never_shown",
                "test_config.py::test_a_password_written_into_the_file_is_refused_and_not_repeated",
                "test_config_wso2.py::test_passwords_in_the_file_are_refused_without_the_switch_which_the_refusal_names",
            ),
            "First password": (
                "cluster/test_first_password.py::test_the_nodes_of_a_machine_share_the_password_that_the_first_one_makes",
                "cluster/test_first_password.py::test_no_password_is_made_for_a_node_that_others_reach_or_that_has_users",
            ),
            "Users": (
                "cluster/test_user_file.py::test_users_are_added_listed_changed_and_removed",
                "cluster/test_user_file.py::test_a_running_node_follows_and_tokens_end_with_the_password",
            ),
            "Four roles": ("cluster/test_api.py::test_each_role_may_do_its_own",),
            "Guessing is slowed down": (
                "cluster/test_api.py::test_who_guesses_has_to_wait_and_nobody_else",
                "transports/test_guesses.py::test_a_few_are_free_and_then_each_costs_twice_as_long_up_to_a_minute",
            ),
        },
        "Connections": {
            "HTTPS": (
                "test_config.py::test_plain_http_stays_on_the_loopback",
                "test_config.py::test_https_comes_first_and_needs_a_certificate",
                "test_key_stores.py::test_a_key_never_shows",
                "cluster/test_mutual_tls.py::test_a_worker_without_a_certificate_or_of_another_authority_stays_out",
            ),
            "TLS 1.2 is the minimum on all sockets of spdist": (
                "test_security_promises.py::test_every_socket_of_ours_gets_its_tls_in_one_place",
                "transports/test_tls.py::test_the_minimum_does_not_depend_on_the_settings_of_this_machine",
                "transports/test_handshakes.py::test_who_does_not_agree_on_tls_in_time_is_closed",
            ),
            "Slow clients are disconnected": (
                "transports/test_connections.py::test_who_sends_byte_by_byte_is_cut_off_too",
                "transports/test_connections.py::test_a_head_that_is_too_large_is_told_so",
                "transports/test_connections.py::test_connections_have_a_bound_in_all_and_from_one_address",
            ),
            "HTTP sources": (
                "runtime/test_sources.py::test_headers_are_properties_and_users_need_passwords",
                "runtime/test_sources.py::test_those_who_may_deploy_may_send",
            ),
        },
        "Tokens": {
            "Credentials": ("cluster/test_api.py::test_every_route_but_health_asks_who_is_there",),
            "Login": (
                "cluster/test_sessions.py::test_a_login_is_a_form",
                "cluster/test_sessions.py::test_a_browser_shows_one_half_and_its_cookie_the_other",
            ),
            "Logout": (
                "cluster/test_sessions.py::test_who_has_logged_out_stays_out",
                "cluster/test_sessions.py::test_a_token_is_good_until_it_ends_and_can_be_renewed_once",
                "cluster/test_user_file.py::test_a_running_node_follows_and_tokens_end_with_the_password",
            ),
            "Scope": ("cluster/test_sessions.py::test_what_is_kept_is_bounded_for_each_user_and_holds_no_token",),
        },
        "Identity providers": {
            "Signed tokens": (
                "cluster/test_identity.py::test_other_tokens_are_refused",
                "cluster/test_claims.py::test_only_keys_that_nobody_else_can_use_check_signatures",
                "cluster/test_claims.py::test_clocks_may_differ_a_little",
            ),
            "Revocation": ("cluster/test_identity.py::test_a_revoked_token_is_refused_within_the_cache_time",),
            "Outage of the provider": (
                "cluster/test_identity.py::test_without_the_provider_only_those_are_let_in_who_are_known",
                "cluster/test_provider.py::test_keys_are_kept_while_the_provider_is_away_but_not_for_ever",
            ),
            "Wrong tokens": ("cluster/test_identity.py::test_who_shows_wrong_tokens_has_to_wait_and_others_do_not",),
            "Groups": (
                "cluster/test_scim.py::test_groups_are_looked_up_where_a_token_has_none",
                "cluster/test_scim.py::test_what_changes_at_the_provider_counts_within_the_cache_time",
                "cluster/test_provider.py::test_users_are_looked_up_as_the_server_can",
            ),
            "Browsers": (
                "cluster/test_identity.py::test_a_browser_logs_in_at_the_provider",
                "cluster/test_identity.py::test_a_login_ends_in_the_browser_that_began_it",
            ),
            "Commands and notebooks": (
                "cluster/test_identity.py::test_a_login_on_the_command_line_is_for_commands_and_notebooks",
                "cluster/test_stored_login.py::test_a_token_is_shown_to_those_managers_only_that_its_login_names",
                "cluster/test_stored_login.py::test_the_file_is_for_its_owner_only_and_never_shown",
            ),
            "Services": ("cluster/test_identity.py::test_programs_show_tokens_of_their_own",),
            "Nodes": (
                "cluster/test_node_token.py::test_a_worker_reports_with_a_token_and_another_scope_is_refused",
                "cluster/test_node_token.py::test_a_token_is_renewed_a_third_of_its_life_ahead_a_minute_at_most",
            ),
        },
        "Audit": {
            "Audit log": (
                "cluster/test_audit.py::test_what_changes_something_or_is_refused_is_recorded",
                "cluster/test_audit.py::test_a_node_records_what_its_users_do",
            ),
            "No contents": ("cluster/test_audit.py::test_reading_and_what_comes_many_times_a_second_is_not",),
            "Journal": (
                "cluster/test_monitoring.py::test_the_journal_tells_who_did_what_and_why_and_outlives_the_leader",
            ),
        },
        "The dashboard": {
            "Login": (
                "dashboard/test_pages.py::test_wrong_logins_are_refused_and_slowed_down",
                "dashboard/test_pages.py::test_a_session_is_a_cookie_that_says_nothing",
            ),
            "Kernels": (
                "dashboard/test_pages.py::test_a_kernel_sees_its_user_and_nothing_else_that_is_secret",
                "dashboard/test_pages.py::test_a_kernel_is_of_the_session_that_started_it",
                "dashboard/test_pages.py::test_code_is_dropped",
                "dashboard/test_sessions.py::test_a_kernel_ends_with_its_session_and_without_its_page",
            ),
        },
        "What an app may use": {
            "Variables and files": (
                "test_security_promises.py::test_an_app_never_sees_variables_and_files_of_a_node",
                "transports/test_references.py::test_the_checker_lets_pass_secrets_in_logins_only",
                "transports/test_references.py::test_no_connector_sends_or_shows_it",
                "transports/test_references.py::test_no_store_shows_it",
            ),
            "Client settings": (
                "test_security_promises.py::test_settings_of_kafka_name_no_file_class_or_command",
                "stores/test_settings.py::test_parameters_that_are_words_may_be_set",
            ),
            "Spark connectors": (
                "transports/test_connector.py::test_what_is_not_allowed_is_said",
                "test_security_promises.py::test_the_example_with_spark_runs_and_formats_are_those_that_are_listed",
            ),
            "Code": (
                "test_public_api.py::test_functions_in_python_need_no_permission_where_nothing_is_run",
                "docs/test_promises.py::test_nothing_is_unpickled",
                "connectors/test_packages.py::test_what_is_installed_and_not_named_is_not_loaded",
                "stores/test_packages.py::test_a_store_that_is_not_named_is_not_loaded",
            ),
        },
        "Limits": {
            "Bad messages": (
                "cluster/test_exposition.py::test_rejected_messages_are_a_counter_for_each_stream",
                "mapping/test_bounds.py::test_a_payload_has_a_bound_of_events",
                "mapping/test_bounds.py::test_a_payload_has_a_bound_of_bytes_read_alone_or_with_others",
                "runtime/test_hostile_payloads.py::test_xml_with_odd_encodings_and_entities_is_a_bad_request",
            ),
            "Planning": (
                "cluster/test_planner.py::test_planning_that_takes_too_long_is_stopped_and_the_next_app_is_planned",
                "cluster/test_planner.py::test_a_large_app_costs_a_leader_neither_its_term_nor_its_answers",
            ),
            "Processing": (
                "functions/test_regex_steps.py::test_an_event_with_a_hostile_expression_costs_only_itself",
                "functions/test_regex_steps.py::test_no_function_makes_a_text_without_bound",
                "functions/test_bounds.py::test_a_map_takes_so_many_entries",
            ),
            "Slow events": (
                "runtime/test_stalls.py::test_an_event_that_stands_still_is_told_and_its_group_stops_within_seconds",
            ),
        },
    },
    "guides/databases.md": {
        "Tables and aggregations": {
            "Data sources": (
                "stores/test_settings.py::test_a_store_finds_its_database_by_name_and_by_jndi_name_and_has_its_pool",
            ),
            "DuckDB": ("stores/test_settings.py::test_duckdb_is_an_embedded_store",),
            "Exactly once": (
                "stores/test_batches.py::test_replayed_batches_change_nothing",
                "stores/test_batches.py::test_a_batch_that_did_not_end_is_undone",
                "runtime/test_group_stores.py::test_a_table_is_changed_once_by_each_event",
            ),
            "Recovery": ("stores/test_batches.py::test_a_state_that_is_restored_finds_tables_as_they_are",),
        },
        "Revisions": {
            "Backup": (
                "cluster/test_revisions.py::test_a_group_is_kept_after_those_that_read_of_it_and_goes_back_before_them",
                "cluster/test_revisions.py::test_only_what_all_groups_have_is_a_revision_of_the_app",
            ),
            "Restore": (
                "runtime/test_revisions_of_apps.py::test_what_was_put_out_after_the_revision_is_not_read_by_those_that_went_back",
            ),
            "Results that have left the app": (
                "runtime/test_revisions_of_apps.py::test_nothing_is_lost_or_counted_twice_wherever_groups_are",
            ),
            "Tables in databases": ("stores/test_batches.py::test_a_state_that_is_restored_finds_tables_as_they_are",),
            "On-demand queries that write": (
                "runtime/test_revisions_of_apps.py::test_writes_on_demand_are_read_again_after_a_restore",
            ),
        },
        "Several active nodes": {
            "Rows": ("stores/test_shards.py::test_both_nodes_answer_for_both_while_the_hour_runs",),
            "Queries": (
                "stores/test_shards.py::test_both_nodes_answer_for_both_while_the_hour_runs",
                "stores/test_shards.py::test_a_node_that_was_killed_and_comes_back_counts_once",
            ),
            "Values": ("properties/test_shard_laws.py::test_shards_together_are_one_node",),
            "Repeats": ("stores/test_batches.py::test_an_aggregation_is_replayed_from_what_it_found",),
            "Removal": ("stores/test_shards.py::test_a_purge_is_for_the_rows_of_all_nodes",),
            "Not shared": ("stores/test_shards.py::test_without_a_store_nothing_is_shared",),
        },
    },
    "deployments.md": {
        "What happens when something fails": {
            "One active server": (
                "cluster/test_server_group.py::test_one_that_loses_the_database_stops_by_its_lease_before_the_other_starts",
            ),
        },
        "Over HTTP": {
            "Acknowledgement": ("runtime/test_sources.py::test_a_body_is_appended_before_it_is_answered",),
            "Retries": (
                "runtime/test_http_repeats.py::test_a_numbered_request_that_is_sent_again_counts_once_also_after_a_restart",
            ),
            "Waiting": ("transports/test_sinks.py::test_wait_goes_on_until_it_is_taken_or_stopped",),
        },
        "A passive server": {
            "One machine": (
                "cluster/test_source_ports.py::test_of_two_servers_on_one_machine_the_active_one_has_the_ports",
                "cluster/test_source_ports.py::test_servers_of_one_address_leave_the_port_to_the_active_one",
            ),
            "A port in use": ("cluster/test_source_ports.py::test_a_port_that_is_in_use_is_told_once_and_tried_again",),
        },
        "What a passive server has ready": {
            "What it reads": (
                "engine/test_state_follower.py::test_the_newest_snapshot_and_what_follows_is_wanted",
                "engine/test_state_follower.py::test_a_snapshot_that_is_too_large_for_memory_is_not_read_ahead",
            ),
            "Copies": (
                "engine/test_state_follower.py::test_a_file_that_took_the_place_of_another_is_read_anew",
                "engine/test_state_follower.py::test_copies_of_what_is_not_needed_any_more_go_and_others_have_a_bound",
            ),
            "Status": (
                "cluster/test_warm_states.py::test_a_passive_app_shows_what_was_seen_of_its_state_and_an_active_one_its_own_figures",
            ),
        },
    },
}


def promises(page: str) -> dict[str, set[str]]:
    """What the promises of a page begin with, by heading: list items that begin in bold."""
    found: dict[str, set[str]] = {}
    heading = ""
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif match := re.match(r"- \*\*(.+?)\.?\*\*", line):
            found.setdefault(heading, set()).add(match.group(1))
    return found


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", ["guides/security.md", "guides/databases.md"])
def test_every_promise_has_tests(page: str) -> None:
    held = {heading: {begin for begin, tests in own.items() if tests} for heading, own in PROMISES[page].items()}
    assert held == promises(page)


def test_promises_of_deployments_are_those_of_the_page() -> None:
    """Its figures are those of commands, which print them; they are no promises."""
    there = promises("deployments.md")
    assert [
        one for heading, own in PROMISES["deployments.md"].items() for one in own if one not in there[heading]
    ] == []


def test_the_tests_that_hold_promises_are_there() -> None:
    named = [one for page in PROMISES.values() for own in page.values() for tests in own.values() for one in tests]
    assert [one for one in named if one.partition("::")[2] not in functions(one.partition("::")[0])] == []


def test_nothing_is_unpickled() -> None:
    """Reading stored state runs no code: no module has what could."""
    loads = re.compile(r"^\s*(import|from) (pickle|cloudpickle|dill|marshal|shelve)\b", re.MULTILINE)
    files = Path(spdist.__file__).parent.rglob("*.py")
    assert [str(one) for one in files if loads.search(one.read_text(encoding="utf-8"))] == []
