//! Which runtimes get a connection of their own.

use super::*;
use crate::backend::LocalConnection;
use crate::backend::redis::connection::Scripted;
use crate::backend::redis::{NodeOptions, RedisNode};
use crate::clock::paused_runtime;

fn node() -> RedisNode {
    RedisNode::open("redis://127.0.0.1:1", None, NodeOptions::default()).unwrap()
}

fn places<S: Source>(node: &RedisNode<S>) -> usize {
    node.runtimes.states.lock().len()
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_is_seen_at_once_and_gets_no_local_connection() {
    assert!(paused_runtime().is_some());
    let node = node();
    assert!(node.local_connection().is_none());
    assert_eq!(places(&node), 0);
    tokio::time::resume();
    assert!(paused_runtime().is_none());
}

#[test]
fn outside_of_a_runtime_there_is_no_local_connection() {
    assert!(node().local_connection().is_none());
}

/// Opens a connection as if this runtime had sent enough commands.
fn open<S: Source>(node: &RedisNode<S>) {
    let here = Handle::current();
    node.runtimes.states.lock().insert(here.id(), RuntimeState::Opening);
    node.runtimes.connect_on(Arc::new(node.route.on(&here)), &here, COMMANDS_BEFORE);
}

#[test]
fn a_runtime_without_io_is_asked_once_and_forgotten_with_its_end() {
    let node = node();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        open(&node);
        for _ in 0..100 {
            assert!(node.local_connection().is_none());
            tokio::task::yield_now().await;
        }
        let id = Handle::current().id();
        let places = node.runtimes.states.lock();
        assert!(matches!(places.get(&id), Some(RuntimeState::Closed)));
    });
    drop(runtime);
    assert_eq!(places(&node), 0);
}

#[tokio::test]
async fn the_task_that_keeps_a_connection_ends_with_it() {
    let node = RedisNode::new("x".to_owned(), Scripted::default(), NodeOptions::default());
    let tasks = || Handle::current().metrics().num_alive_tasks();
    for _ in 0..3 {
        open(&node);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((places(&node), tasks()), (1, 1));
}

/// The address of the node has no server.
#[tokio::test]
async fn a_local_connection_that_cannot_be_opened_is_forgotten() {
    let node = node();
    open(&node);
    while places(&node) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_runtime_that_asks_seldom_gets_none() {
    let node = node();
    for _ in 0..2 * COMMANDS_BEFORE {
        assert!(node.local_connection().is_none());
    }
    let places = node.runtimes.states.lock();
    // Without a connection to the server, more commands do not open one either.
    assert!(places.values().all(|place| matches!(place, RuntimeState::Wanted { .. })));
}

#[test]
fn a_stall_of_the_server_does_not_count_for_ever() {
    let soon = Duration::from_secs(2);
    for (lived, before, after) in [
        (soon, COMMANDS_BEFORE, 1024),
        (soon, 1024, MOST_COMMANDS_BEFORE),
        (soon, MOST_COMMANDS_BEFORE, MOST_COMMANDS_BEFORE),
        (LIVED_WELL, COMMANDS_BEFORE, 1024),
        (LIVED_WELL, MOST_COMMANDS_BEFORE, 1024),
    ] {
        assert_eq!(commands_after_silence(before, lived), after, "{before} {lived:?}");
    }
}

/// Those that have a connection, or cannot have one, are no reason to forget others.
#[test]
fn a_new_runtime_is_remembered_however_many_there_are() {
    let new = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let remembered = |are_wanted: bool| {
        let node = node();
        for _ in 0..=MOST_WANTED {
            let wanted = RuntimeState::Wanted { commands: 1, commands_before: COMMANDS_BEFORE };
            let state = if are_wanted { wanted } else { RuntimeState::Closed };
            node.runtimes.states.lock().insert(new().handle().id(), state);
        }
        new().block_on(async {
            for _ in 0..3 {
                assert!(node.local_connection().is_none());
            }
            let states = node.runtimes.states.lock();
            let here = states.get(&Handle::current().id());
            assert!(matches!(here, Some(RuntimeState::Wanted { commands: 3, .. })));
            states.len()
        })
    };
    assert_eq!(remembered(false), MOST_WANTED + 2);
    assert_eq!(remembered(true), 1, "the new one");
}
