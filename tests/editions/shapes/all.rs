pub mod arguments {
    use super::redis_lock;
    include!("arguments.rs");
}

pub mod bodies {
    use super::redis_lock;
    include!("bodies.rs");
}

pub mod chains {
    use super::redis_lock;
    include!("chains.rs");
}

#[allow(clippy::needless_pass_by_value)]
pub mod drops {
    use super::redis_lock;
    include!("drops.rs");
}

pub mod generics {
    use super::redis_lock;
    include!("generics.rs");
}

pub mod keys {
    use super::redis_lock;
    include!("keys.rs");
}

pub mod lent {
    use super::redis_lock;
    include!("lent.rs");
}

pub mod methods {
    use super::redis_lock;
    include!("methods.rs");
}

pub mod names {
    use super::redis_lock;
    include!("names.rs");
}

pub mod options {
    use super::redis_lock;
    include!("options.rs");
}

pub mod outputs {
    use super::redis_lock;
    include!("outputs.rs");
}

pub mod traits {
    use super::redis_lock;
    include!("traits.rs");
}
