//! Each case of the contract on each place: one test for every pair.

use super::place::Place;
use super::{
    acquire, fencing, handles, kinds, leader, options, reentry, release, renew, run, several, wait,
};

macro_rules! on_every_backend {
    ($($group:ident::$case:ident),* $(,)?) => {
        on_every_backend!(@place memory $($group::$case)*);
        on_every_backend!(@place url $($group::$case)*);
        on_every_backend!(@place pool $($group::$case)*);
        on_every_backend!(@place other_prefix $($group::$case)*);
        on_every_backend!(@place quorum $($group::$case)*);
        on_every_backend!(@place quorum_two_down $($group::$case)*);
        on_every_backend!(@place quorum_of_pools $($group::$case)*);
        on_every_backend!(@place min_replicas $($group::$case)*);
        on_every_backend!(@place sentinel $($group::$case)*);
        on_every_backend!(@place sentinel_pool $($group::$case)*);
        on_every_backend!(@place cluster $($group::$case)*);
        on_every_backend!(@place cluster_pool $($group::$case)*);
    };
    (@place $place:ident $($group:ident::$case:ident)*) => {
        mod $place {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$group::$case(&super::Place::$place().await).await;
                }
            )*
        }
    };
}

on_every_backend![
    acquire::a_free_lock_is_taken,
    acquire::a_held_lock_is_refused_and_names_its_holder,
    acquire::different_keys_do_not_exclude_each_other,
    acquire::different_prefixes_do_not_exclude_each_other,
    acquire::two_clients_exclude_each_other,
    acquire::clones_share_one_client,
    acquire::a_record_of_somebody_else_is_respected,
    acquire::an_acquire_dropped_at_any_poll_leaves_nothing,
    acquire::a_dropped_waiter_hands_its_turn_on,
    fencing::fencing_tokens_grow_with_every_hold,
    fencing::fencing_tokens_grow_across_clients,
    fencing::fencing_tokens_grow_after_the_marks_are_lost,
    fencing::fencing_tokens_grow_after_all_data_is_lost,
    fencing::fencing_tokens_are_exact_in_a_double,
    handles::held_lists_what_is_held,
    handles::a_lease_reads_the_state_of_its_lock,
    handles::a_released_lease_is_over,
    handles::protect_runs_a_future_under_the_lease,
    handles::protect_stops_with_the_lease,
    handles::a_dropped_protect_keeps_the_lock,
    kinds::readers_share_a_lock,
    kinds::a_writer_follows_the_last_reader,
    kinds::a_reader_does_not_pass_a_waiting_writer,
    kinds::a_writer_gets_its_turn_among_readers_that_never_pause,
    kinds::a_writer_gets_its_turn_among_readers_in_a_hurry,
    kinds::a_reader_that_comes_back_at_once_does_not_pass_a_writer,
    kinds::a_crowd_of_readers_and_writers_never_meets,
    kinds::a_read_inside_of_a_write_re_enters,
    kinds::readers_are_renewed,
    kinds::a_reader_does_not_survive_into_another_group,
    kinds::a_permit_finds_its_key_with_readers,
    kinds::a_read_dropped_at_any_poll_leaves_nothing,
    kinds::a_writer_becomes_a_reader_without_a_gap,
    kinds::a_lost_lock_is_not_downgraded,
    kinds::permits_are_counted_or_refused,
    kinds::never_more_than_the_permits,
    leader::a_leader_that_is_done_is_followed,
    leader::a_leader_that_lost_its_lock_leads_again,
    leader::a_thread_blocks_for_its_lock,
    options::bad_keys_are_typed_errors,
    options::odd_but_good_keys_are_locked,
    options::an_expire_out_of_range_is_a_typed_error,
    options::extreme_waits_work,
    options::too_many_waiters_are_refused,
    options::the_options_of_the_client_are_the_defaults,
    reentry::the_same_task_re_enters,
    reentry::a_re_entered_guard_releases_nothing,
    reentry::another_task_does_not_re_enter,
    reentry::a_scoped_task_re_enters,
    reentry::another_client_does_not_re_enter,
    reentry::leases_nest_and_come_back,
    release::a_release_frees_the_lock,
    release::a_release_of_a_lost_key_says_expired,
    release::a_release_of_a_stolen_key_says_stolen_and_leaves_it,
    release::a_lock_stays_taken_for_its_min_hold,
    release::a_dropped_guard_frees_the_lock,
    release::a_dropped_guard_leaves_a_stolen_key,
    release::a_panic_frees_the_lock,
    release::a_guard_can_be_dropped_without_a_runtime,
    release::shutdown_waits_for_dropped_guards,
    release::a_shutdown_ends_all_waiting,
    release::a_shutdown_keeps_held_locks,
    renew::a_lease_is_renewed_for_as_long_as_it_is_held,
    renew::the_last_renewal_ends_the_lease,
    renew::no_renewals_at_all,
    renew::a_stolen_lease_is_lost,
    renew::a_vanished_lease_is_lost,
    renew::a_lost_lease_frees_the_key_by_itself,
    run::a_future_runs_under_the_lock,
    run::the_lock_is_free_when_run_returns,
    run::a_run_is_stopped_with_its_lease,
    run::a_dropped_run_frees_the_lock,
    run::a_finished_future_keeps_its_output_though_the_lease_was_lost,
    run::a_run_that_cannot_lock_does_not_start,
    several::several_keys_are_one_lock,
    several::a_busy_one_of_several_keys_is_named_and_the_others_are_let_go_of,
    several::several_keys_wait_for_each_of_them,
    several::fencing_tokens_of_several_keys_grow,
    several::the_loss_of_one_key_stops_the_body_and_frees_the_others,
    several::who_waits_for_one_of_several_keys_does_not_end_their_hold,
    several::an_acquire_of_several_keys_dropped_at_any_poll_leaves_nothing,
    several::several_keys_are_re_entered,
    several::readers_of_one_of_several_keys_are_waited_for,
    wait::never_asks_once,
    wait::at_most_ends_with_a_timeout,
    wait::at_most_gets_a_lock_that_comes_free,
    wait::forever_outlasts_the_holder,
    wait::waiters_of_one_process_are_served_in_order,
    wait::a_waiter_is_not_passed_by_those_who_came_later,
];
