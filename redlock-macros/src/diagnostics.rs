//! Collects errors, so that one compile reports all of them, and helps to write their messages.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::Error;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(Error::new(span, message));
    }

    /// Points at all of `tokens`, not only at the first one.
    pub(crate) fn over(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Unwraps `result`, keeping its error.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn into_compile_errors(self) -> Option<TokenStream> {
        self.0.map(Error::into_compile_error)
    }

    #[cfg(test)]
    pub(crate) fn messages(self) -> Vec<String> {
        self.0.into_iter().flatten().map(|error| error.to_string()).collect()
    }
}

/// `` `a`, `b` and `c` ``
pub(crate) fn list(words: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_ref())).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// The known word that was most likely meant by `wrong`, if any is near enough.
pub(crate) fn closest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (distance(wrong, word), word))
        .filter(|(distance, word)| *distance <= 1.max(word.len() / 3))
        .min()
        .map(|(_, word)| word)
}

/// Optimal string alignment: the swap of two neighbours (`kye`), the commonest slip, counts once.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best.min(rows[i - 2][j - 2] + 1)
                } else {
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance("kye", "key"), 1);
        assert_eq!(distance("eky", "key"), 1);
        assert_eq!(distance("key", "key"), 0);
        assert_eq!(distance("", "key"), 3);
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["key", "expire", "max_renew"];
        assert_eq!(closest("expires", known), Some("expire"));
        assert_eq!(closest("maxrenew", known), Some("max_renew"));
        assert_eq!(closest("renew", ["renewal"]), Some("renewal"));
        assert_eq!(closest("fencing", known), None);
    }

    #[test]
    fn a_list_reads_as_a_sentence() {
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&[""; 0]), "none");
    }

    #[test]
    fn errors_are_all_kept() {
        let mut errors = Errors::default();
        errors.at(Span::call_site(), "one");
        errors.at(Span::call_site(), "two");
        assert_eq!(errors.messages(), ["one", "two"]);
    }
}
