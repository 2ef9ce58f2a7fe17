use proc_macro2::Span;
use quote::{format_ident, quote};

use super::*;

fn names(source: TokenStream) -> Vec<String> {
    let expr: syn::Result<Expr> = syn::parse2(source);
    expr.map(|expr| reads(&expr).iter().map(ToString::to_string).collect()).unwrap_or_default()
}

#[test]
fn only_values_are_read() {
    assert_eq!(names(quote!(order.items[n].id())), ["order", "n"]);
    assert_eq!(names(quote!(f(a, b + 1, m::g(&c)))), ["a", "b", "c"]);
    assert_eq!(names(quote!((a as u8, [*b, -c]))), ["a", "b", "c"]);
    assert_eq!(names(quote!(a::b)), [""; 0]);
    assert_eq!(names(quote!(format!("{a}"))), [""; 0]);
    assert_eq!(names(quote!(text[a..b])), ["text", "a", "b"]);
}

#[test]
fn constants_are_told_by_their_case() {
    for (name, constant) in [("SHARD", true), ("N2", true), ("_X", true), ("id", false)] {
        assert_eq!(is_constant(&format_ident!("{name}")), constant, "{name}");
    }
}

#[test]
fn fields_keep_their_hygiene() {
    let id = Ident::new("id", Span::call_site());
    assert!(mentions(quote!(f(a, [id])), std::slice::from_ref(&id)));
    assert!(!mentions(quote!(f(a, [idd])), std::slice::from_ref(&id)));
    let adopted = adopt(quote!(self.id + id.self_), &[id], Some(&format_ident!("__self")));
    assert_eq!(adopted.to_string(), quote!(__self.id + id.self_).to_string());
}
