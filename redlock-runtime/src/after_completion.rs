//! The panic of a future that is polled after its end.

#[cold]
#[expect(clippy::panic, reason = "the contract of `Future`: not to be polled after completion")]
pub(crate) fn after_completion(what: &str) -> ! {
    panic!("{what} was polled after completion")
}
