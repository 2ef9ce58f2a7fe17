use std::io;

use deadpool_redis::redis::Value;

use super::*;
use crate::backend::redis::connection::value;
use NodeErrorKind::{
    Authentication, Busy, CannotPersist, Cluster, Loading, NoMaster, NoPermission, NoReplicas,
    OutOfMemory, Protocol, ReadOnly, Refused, TooManyClients, Unreachable, WrongType,
};

/// What the server says, diagnosed.
fn said(words: &str) -> Diagnosis {
    let Ok(Value::ServerError(error)) = value(&format!("-{words}")) else { panic!("{words}") };
    let diagnosis = diagnose("n", &error.into());
    assert!(!diagnosis.broke(), "{words}");
    diagnosis
}

fn made(kind: ErrorKind, detail: &str) -> Diagnosis {
    diagnose("n", &RedisError::from((kind, "of the client", detail.to_owned())))
}

#[test]
fn what_time_mends_is_tried_again_on_the_same_connection() {
    for (words, kind) in [
        ("LOADING Redis is loading", Loading),
        ("BUSY Redis is busy running a script", Busy),
        ("MISCONF Redis is configured to save", CannotPersist),
        ("NOREPLICAS Not enough good replicas", NoReplicas),
        ("TRYAGAIN Multiple keys", Cluster),
        ("CLUSTERDOWN Hash slot not served", Cluster),
        ("ERR Error running script: -MISCONF Redis is configured", CannotPersist),
        ("ERR Error running script: -NOREPLICAS Not enough", NoReplicas),
        ("ERR Error running script: -CLUSTERDOWN down", Cluster),
        ("@user_script: 143: -MISCONF Redis is configured", CannotPersist),
        ("@user_script: 143: -NOREPLICAS Not enough", NoReplicas),
    ] {
        let Diagnosis { error, discard, is_final, .. } = said(words);
        assert_eq!((error.kind(), discard, is_final), (kind, false, false), "{words}");
    }
}

#[test]
fn a_server_without_the_others_knows_no_master() {
    for words in [
        "CLUSTERDOWN Hash slot not served",
        "CLUSTERDOWN The cluster is down",
        "ERR Error running script: -CLUSTERDOWN down",
    ] {
        assert!(said(words).knows_no_master, "{words}");
    }
    for words in ["TRYAGAIN Multiple keys", "MOVED 1234 127.0.0.1:7001", "LOADING Redis"] {
        assert!(!said(words).knows_no_master, "{words}");
    }
}

#[test]
fn what_somebody_must_mend_is_final() {
    for (words, kind) in [
        ("NOPERM this user has no permissions", NoPermission),
        ("ERR Error running script: -NOPERM this user", NoPermission),
        ("ERR The user executing the script can't run this command", NoPermission),
        ("ERR ACL failure in script: no keys", NoPermission),
        ("OOM command not allowed", OutOfMemory),
        ("ERR Error running script: -OOM command not allowed", OutOfMemory),
        ("WRONGTYPE Operation against a key", WrongType),
        ("ERR Error running script: -WRONGTYPE Operation", WrongType),
        ("@user_script: 143: -OOM command not allowed", OutOfMemory),
        ("@user_script: 143: -WRONGTYPE Operation", WrongType),
        ("MOVED 1234 127.0.0.1:7001", Cluster),
        ("ASK 1234 127.0.0.1:7001", Cluster),
        ("CROSSSLOT Keys in request", Cluster),
        ("ERR unknown command", Refused),
        ("ERR WRONGTYPE is only a word here", Refused),
        ("OTHER script WRONGTYPE", Refused),
    ] {
        let Diagnosis { error, discard, is_final, .. } = said(words);
        assert_eq!((error.kind(), discard, is_final), (kind, false, true), "{words}");
    }
}

#[test]
fn a_connection_that_leads_to_the_wrong_place_is_given_up() {
    for (words, kind, is_final) in [
        ("READONLY You can't write against a read only replica", ReadOnly, false),
        ("ERR Error running script: -READONLY You can't write", ReadOnly, false),
        ("@user_script: 143: -READONLY You can't write", ReadOnly, false),
        ("MASTERDOWN Link with MASTER is down", ReadOnly, false),
        ("UNBLOCKED force unblock from blocking operation", ReadOnly, false),
        ("NOAUTH Authentication required", Authentication, true),
        ("WRONGPASS invalid username", Authentication, true),
        ("ERR max number of clients reached", TooManyClients, false),
    ] {
        let diagnosis = said(words);
        let found = (diagnosis.error.kind(), diagnosis.discard, diagnosis.is_final);
        assert_eq!(found, (kind, true, is_final), "{words}");
    }
}

#[test]
fn only_what_redis_says_proves_that_a_command_was_not_carried_out() {
    for words in [
        "NOPERM this user has no permissions",
        "ERR Error running script: -OOM command not allowed",
        "READONLY You can't write against a read only replica",
        "LOADING Redis is loading",
        "NOAUTH Authentication required",
        "ERR max number of clients reached",
        "MOVED 1234 127.0.0.1:7001",
        "NOSCRIPT No matching script",
        "FENCE no fencing token is left behind k",
        "ERR unknown command `EVALSHA`",
        "ERR wrong number of arguments for 'evalsha' command",
    ] {
        assert!(!said(words).may_have_run(), "{words}");
    }
    for words in [
        "upstream failure",
        "no upstream host",
        "ERR Connection timed out",
        "ERR Broken pipe",
        "ERR the words unknown command are only words here",
        "OTHER unknown command",
    ] {
        let Diagnosis { error, has_run, discard, is_final, .. } = said(words);
        let found = (error.kind(), has_run, discard, is_final);
        assert_eq!(found, (Refused, HasRun::Perhaps, false, true), "{words}");
    }
    assert!(made(ErrorKind::UnexpectedReturnType, "").may_have_run());
    assert!(!made(ErrorKind::ClusterConnectionNotFound, "").may_have_run());
}

/// The command may have been carried out.
#[test]
fn a_connection_that_broke_leaves_the_outcome_open() {
    let reset = RedisError::from(io::Error::from(io::ErrorKind::ConnectionReset));
    let garbled = value("?what").unwrap_err();
    for (error, kind) in [(reset, Unreachable), (garbled, Protocol)] {
        let Diagnosis { error, discard, has_run, is_final, .. } = diagnose("n", &error);
        let found = (error.kind(), discard, has_run, is_final);
        assert_eq!(found, (kind, true, HasRun::Broke, false));
    }
}

#[test]
fn what_the_client_itself_finds_is_understood() {
    for (kind, detail, expected, discard, broke, is_final) in [
        (ErrorKind::AuthenticationFailed, "", Authentication, true, false, true),
        (ErrorKind::Io, "AuthenticationFailed: no", Unreachable, true, true, false),
        (ErrorKind::Io, "no route", Unreachable, true, true, false),
        (ErrorKind::ClusterConnectionNotFound, "", Unreachable, false, false, false),
        (ErrorKind::MasterNameNotFoundBySentinel, "", NoMaster, false, false, false),
        (ErrorKind::UnexpectedReturnType, "", Protocol, true, false, false),
        (ErrorKind::Client, "", Refused, false, false, true),
        (ErrorKind::Client, "Redis is busy running a script", Busy, false, false, false),
    ] {
        let found = made(kind, detail);
        let flags = (found.discard, found.broke(), found.is_final);
        assert_eq!(found.error.kind(), expected, "{kind:?}");
        assert_eq!(flags, (discard, broke, is_final), "{kind:?}");
    }
}

#[test]
fn the_message_is_what_was_said() {
    let message = |words| said(words).error.message().to_owned();
    assert_eq!(message("BUSY a script runs"), "BUSY a script runs");
    assert_eq!(message("BUSY"), "BUSY");
    assert!(made(ErrorKind::Io, "no route").error.message().contains("no route"));
    // As of a server that answers in HTTP.
    let parsed = made(ErrorKind::Parse, "Parse error at 1\nUnexpected `33`\n");
    assert!(parsed.error.message().ends_with("Parse error at 1; Unexpected `33`"), "{parsed:?}");
}

#[test]
fn a_login_that_is_missing_is_told_from_one_that_is_refused() {
    for missing in ["NOAUTH Authentication required", "NOAUTH HELLO must be called with AUTH"] {
        let text = said(missing).error.to_string();
        assert!(text.contains("put user and password into the URL"), "{text}");
    }
    let refused = [
        said("WRONGPASS invalid username-password pair or user is disabled."),
        made(ErrorKind::AuthenticationFailed, "WRONGPASS invalid username-password pair"),
        made(ErrorKind::AuthenticationFailed, "ERR AUTH <password> called without any password"),
    ];
    for Diagnosis { error, .. } in refused {
        let text = error.to_string();
        let advice = "refused this user or password: is it escaped in the URL (`%40` for `@`), and \
                      does the server have one?";
        assert!(text.contains(advice) && !text.contains("put user"), "{text}");
    }
}

/// The client of a cluster tells what the last of its servers has failed with.
#[test]
fn a_login_that_one_of_several_servers_refuses_is_told_as_that() {
    let text = made(ErrorKind::Io, "AuthenticationFailed: no").error.to_string();
    assert!(text.contains("one of the servers refuses this user or password"), "{text}");
}

/// The server can refuse writes, and a client can ask for confirmations.
#[test]
fn too_few_replicas_are_told_with_the_option_that_asks_for_them() {
    for words in ["NOREPLICAS Not enough", "ERR Error running script: -NOREPLICAS Not enough"] {
        let text = said(words).error.to_string();
        assert!(text.contains("`min-replicas-to-write`") && !text.contains("min_rep"), "{text}");
    }
    let ours = NodeError::new("n", NoReplicas, "0 of 1 replicas confirmed the write");
    let text = ours.to_string();
    assert!(text.contains("`min_replicas`") && !text.contains("min-replicas"), "{text}");
}

/// The client library leaves the code out.
#[test]
fn a_refused_database_is_told_as_what_it_is() {
    for (detail, kind) in [
        ("Authentication required.", Authentication),
        ("Redis is loading the dataset in memory", Loading),
        ("Redis is busy running a script", Busy),
        ("Link with MASTER is down and slave-serve-stale-data is set to 'no'.", ReadOnly),
        ("User locks has no permissions to run the 'select' command", NoPermission),
        ("this user has no permissions to run the 'select' command", NoPermission),
        ("DB index is out of range", Refused),
    ] {
        let error = RedisError::from((
            ErrorKind::Server(deadpool_redis::redis::ServerErrorKind::ResponseError),
            "Redis server refused to switch database",
            detail.to_owned(),
        ));
        let told = diagnose("n", &error);
        assert_eq!((told.error.kind(), told.may_have_run()), (kind, false), "{detail}");
        let is_of_url = told.error.to_string().contains("correct the URL");
        assert_eq!(is_of_url, detail.starts_with("DB index"), "{}", told.error);
    }
    let missing = said("ERR Authentication required.").error.to_string();
    assert!(missing.contains("put user and password into the URL"), "{missing}");
}

#[test]
fn what_a_server_repeats_of_a_login_is_not_told() {
    let words = "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'secret' ";
    let error = said(words).error;
    let shown = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
    assert!(shown.contains("unknown command 'HELLO'") && !shown.contains("secret"), "{shown}");
}
