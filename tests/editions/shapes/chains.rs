// Proving that a future is `Send` follows the calls in it as deep as they go: rustc gives up at 128
// steps, three for each plain function. These crates leave that limit as it is.

use crate::support::Locked;

#[redis_lock(key = "leaf-<id>")]
pub async fn leaf(id: u64) -> Locked<u64> {
    Ok(id)
}

/// `callee caller caller..`: each calls the one before it.
macro_rules! plain_chain {
    ($callee:ident) => {};
    ($callee:ident $caller:ident $($rest:ident)*) => {
        pub async fn $caller(id: u64) -> Locked<u64> {
            $callee(id).await
        }

        plain_chain!($caller $($rest)*);
    };
}

macro_rules! locked_chain {
    ($callee:ident) => {};
    ($callee:ident $caller:ident $($rest:ident)*) => {
        #[redis_lock(key = "chain-<id>")]
        pub async fn $caller(id: u64) -> Locked<u64> {
            $callee(id).await
        }

        locked_chain!($caller $($rest)*);
    };
}

plain_chain! {
    leaf
    plain1 plain2 plain3 plain4 plain5 plain6 plain7 plain8 plain9 plain10
    plain11 plain12 plain13 plain14 plain15 plain16 plain17 plain18 plain19 plain20
    plain21 plain22 plain23 plain24 plain25 plain26 plain27 plain28 plain29 plain30
    plain31 plain32 plain33 plain34 plain35 plain36 plain37 plain38 plain39
}

// With the leaf, fifteen.
locked_chain! {
    leaf
    locked2 locked3 locked4 locked5 locked6 locked7 locked8 locked9 locked10
    locked11 locked12 locked13 locked14 locked15
}
