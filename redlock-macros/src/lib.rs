//! The attribute.
/// placeholder until the real crate lands
#[proc_macro_attribute]
pub fn redis_lock(
    _: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    item
}
