//! The common heads of the scripts of shared kinds.

/// A script after `hand_over.lua`, `holders.lua` and `join.lua`, the functions that several scripts
/// share.
macro_rules! with_join {
    ($file:literal $(, after $first:literal)?) => {
        $crate::backend::redis::commands::Script::new(concat!(
            $(include_str!($first),)?
            include_str!("../exclusive/hand_over.lua"),
            include_str!("holders.lua"),
            include_str!("join.lua"),
            include_str!($file)
        ))
    };
}
pub(super) use with_join;
