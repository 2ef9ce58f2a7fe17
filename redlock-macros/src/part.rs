//! The parts of a key template.

use proc_macro2::Span;
use syn::Expr;

#[expect(clippy::large_enum_variant, reason = "a handful of them live per expansion")]
pub(crate) enum Part {
    Text(String),
    Value(Value),
}

impl Part {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(text),
            Part::Value(_) => None,
        }
    }

    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Part::Value(value) => Some(value),
            Part::Text(_) => None,
        }
    }

    /// The expression of a placeholder.
    pub(crate) fn expr(&self) -> Option<&Expr> {
        self.value().map(|value| &value.expr)
    }
}

pub(crate) struct Value {
    pub(crate) expr: Expr,
    /// The text after the `:`, for `format!`; empty for plain `Display`.
    pub(crate) format: String,
    /// The expression as it was written, to name it in errors.
    pub(crate) source: String,
    /// Byte range of `source` in the literal's value.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) span: Span,
}
