//! What child processes can do; a test starts one with `Process::spawn(role, args)`.

use crate::support::process::{Args, Process, Role, block_on, emit, play};
use crate::support::{Server, ms, secs, time_passes};
use crate::{ends_roles, fault_roles, forks_roles, leader_roles};

/// Every role by its name.
fn roles() -> &'static [(&'static str, Role)] {
    &[
        ("echo", echo),
        ("tick", tick),
        ("panic", panic),
        ("own-a-server", own_a_server),
        ("call-before-init", crate::attribute_client::call_before_init),
        ("init-in-a-scope", crate::scope::init_in_a_scope),
        ("count", crate::parity::count),
        ("count-in-tasks", crate::parity::count_in_tasks),
        ("take-turns", crate::hand_over_worker::work),
        ("wait-in-a-cluster", crate::cluster_queue::wait),
        ("call-and-end", ends_roles::call_and_end),
        ("cancel-and-end", ends_roles::cancel_and_end),
        ("downgrade-and-end", ends_roles::downgrade_and_end),
        ("wait-and-end", ends_roles::wait_and_end),
        ("drop-many-and-end", ends_roles::drop_many_and_end),
        ("fork-with-a-lock", forks_roles::with_a_lock),
        ("fork-as-a-daemon", forks_roles::as_a_daemon),
        ("fork-in-a-body", forks_roles::in_a_body),
        ("fork-while-others-lock", forks_roles::while_others_lock),
        ("transfer", crate::transfers::work),
        ("watch-the-tls-provider", crate::tls::watch_the_provider),
        ("fork-and-block", forks_roles::and_block),
        ("run-a-job", crate::min_hold::run_jobs),
        ("run-ticks", crate::min_hold::run_ticks),
        ("hold", fault_roles::hold),
        ("drop-and-end", fault_roles::drop_and_end),
        ("end-and-drop", fault_roles::end_and_drop),
        ("end-with-a-local-guard", fault_roles::end_with_a_local_guard),
        ("end-with-a-local-runtime", fault_roles::end_with_a_local_runtime),
        ("drop-by-panic", fault_roles::drop_by_panic),
        ("exit-while-holding", fault_roles::exit_while_holding),
        ("increment", fault_roles::increment),
        ("lead", leader_roles::lead),
        ("block-the-background-thread", fault_roles::block_the_background_thread),
        ("short-of-files", fault_roles::short_of_files),
        ("lose-the-background-thread", crate::thread_death::lose_the_background_thread),
    ]
}

/// The main function of a child; an empty test otherwise.
#[test]
fn child_entry() {
    play(roles());
}

/// Says its arguments.
fn echo(args: &Args) {
    emit(&format!("first {}", args.get(0)));
    emit(&format!("sum {}", args.parse::<u32>(1) + args.parse::<u32>(2)));
}

/// Counts every few milliseconds for at most a minute.
fn tick(_: &Args) {
    block_on(async {
        let mut interval = tokio::time::interval(ms(5));
        for n in 0..12_000 {
            interval.tick().await;
            emit(&format!("tick {n}"));
        }
    });
}

fn panic(_: &Args) {
    panic!("as it was told");
}

/// Has a server and a child of its own, and waits to be killed.
fn own_a_server(_: &Args) {
    block_on(async {
        let server = Server::start().await;
        let child = Process::spawn("tick", &[]);
        emit(&format!("server {} {}", server.addr(), server.pid()));
        emit(&format!("child {}", child.pid()));
        time_passes(secs(60)).await;
    });
}
