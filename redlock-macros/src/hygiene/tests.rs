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
    assert_eq!(names(quote!((a.f)([b; n]))), ["a", "b", "n"]);
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

/// `mentions` counts all names; a body uses variables.
#[test]
fn fields_are_no_variables() {
    let id = [Ident::new("id", Span::call_site())];
    for (source, expected) in [
        (quote!(order.id), false),
        (quote!(order.id()), false),
        (quote!(Order { id: 3 }), false),
        (quote!(let Order { id: x } = order;), false),
        (quote!(|id: u64| 1), false),
        (quote!(Order { id }), true),
        (quote!(Order { n: id }), true),
        (quote!(Order { ..id }), true),
        (quote!(text[..id]), true),
        (quote!(text[order.a..id]), true),
        (quote!(text[0..=id]), true),
        (quote!(order.f(id)), true),
        (quote!(id.id), true),
        (quote!(println!("{id}")), true),
    ] {
        assert_eq!(may_use(source.clone(), &id), expected, "{source}");
        assert!(mentions(source.clone(), &id), "{source}");
    }
}

#[test]
fn only_a_single_dot_makes_a_field() {
    let this = format_ident!("__self");
    for (source, adopted) in [
        (quote!(text[..self.n]), quote!(text[..__self.n])),
        (quote!(text[self.a..self.b]), quote!(text[__self.a..__self.b])),
        (quote!(text[a.self_..=self.n]), quote!(text[a.self_..=__self.n])),
        (quote!(S { id, ..self.rest() }), quote!(S { id, ..__self.rest() })),
    ] {
        let id = Ident::new("id", Span::call_site());
        assert_eq!(adopt(source, &[id], Some(&this)).to_string(), adopted.to_string());
    }
}

#[test]
fn the_self_of_a_path_is_a_module() {
    let this = format_ident!("__self");
    let adopted = adopt(quote!(self::name(self.id) + self), &[], Some(&this));
    assert_eq!(adopted.to_string(), quote!(self::name(__self.id) + __self).to_string());
}

#[test]
fn a_name_has_two_spellings() {
    let (plain, raw) = (format_ident!("id"), format_ident!("r#id"));
    assert!(is_same(&plain, &raw) && is_same(&raw, &plain) && is_same(&raw, &raw));
    assert!(!is_same(&plain, &format_ident!("r#idd")));
    assert!(mentions(quote!(f(r#id)), std::slice::from_ref(&plain)));
    let adopted = adopt(quote!(f(r#id.r#id)), &[plain], None);
    assert_eq!(adopted.to_string(), quote!(f(id.r#id)).to_string());
}

#[test]
fn a_keyword_is_no_name() {
    let raw = format_ident!("r#match");
    let keyword = Ident::new("match", Span::call_site());
    assert!(!is_same(&raw, &keyword) && !is_same(&keyword, &raw));
    let source = quote!(match r#match {});
    assert_eq!(adopt(source.clone(), &[raw], None).to_string(), source.to_string());
}

#[test]
fn a_format_string_names_whole_words() {
    for (text, expected) in [
        ("{id}", true),
        ("{id:05}", true),
        ("{:id$}", true),
        ("{idx}", false),
        ("{my_id}", false),
        ("{n} id", false),
    ] {
        assert_eq!(captures(text, "id"), expected, "{text}");
    }
}

#[test]
fn a_blank_is_found_in_arguments() {
    for (source, expected) in [(quote!(_), true), (quote!(f(&_)), true), (quote!(f(_a)), false)] {
        let expr = syn::parse2(source.clone());
        assert_eq!(expr.is_ok_and(|expr| reads_blank(&expr)), expected, "{source}");
    }
}
