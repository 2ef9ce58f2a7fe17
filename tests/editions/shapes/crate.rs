// The root of each edition's crate: every shape twice, without and with the lock.

// Without the attribute nothing reads what only a key or an option names.
#[allow(unused_variables)]
pub mod plain {
    use plain_attribute::redis_lock;
    include!("all.rs");
}

pub mod locked {
    use redlock::redis_lock;
    include!("all.rs");
}

pub mod support {
    include!("support.rs");
}

mod parity {
    include!("parity.rs");
}
