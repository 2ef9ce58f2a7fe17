//! Places in a text, and what is inserted there.

use std::ops::Range;

use proc_macro2::Span;
use serde::Deserialize;
use syn::spanned::Spanned;

/// A line and a column of characters, both from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// A text whose places are known.
#[derive(Debug)]
pub struct Text<'a> {
    pub whole: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    pub fn new(whole: &'a str) -> Self {
        let ends = whole.match_indices('\n').map(|(end, _)| end + 1);
        Self { whole, lines: std::iter::once(0).chain(ends).collect() }
    }

    pub fn offset(&self, place: Place) -> usize {
        let line = self.lines[place.line - 1];
        let mut characters = self.whole[line..].char_indices();
        characters.nth(place.column - 1).map_or(self.whole.len(), |(column, _)| line + column)
    }

    pub fn range(&self, node: &impl Spanned) -> Range<usize> {
        self.span(node.span())
    }

    pub fn span(&self, span: Span) -> Range<usize> {
        let [start, end] = [span.start(), span.end()]
            .map(|place| self.offset(Place { line: place.line, column: place.column + 1 }));
        start..end
    }

    pub fn of(&self, node: &impl Spanned) -> &'a str {
        &self.whole[self.range(node)]
    }
}

/// Something to insert, with the mutants that parts of it are.
#[derive(Debug, Default)]
pub struct Insertion {
    pub text: String,
    /// A part of `text`, and which mutant it is.
    pub parts: Vec<(Range<usize>, usize)>,
}

impl Insertion {
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub fn push_mutant(&mut self, mutant: usize, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.parts.push((start..self.text.len(), mutant));
    }
}
