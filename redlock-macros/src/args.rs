//! The options between the parentheses: `name = value, ..`, with recovery at every comma.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Error, Expr, Ident, Path, Token};

use crate::diagnostics::{Errors, list};
use crate::hygiene::is_punct;
use crate::keys::{self, Key};
use crate::option_names::{KNOWN, excluded, known};
use crate::values::{self, Count, Mode, OnError, Time};

/// The options of the attribute. Options that were left out stay `None`: the client's defaults
/// apply.
pub(crate) struct Args {
    pub(crate) key: Option<Key>,
    pub(crate) expire: Option<Time>,
    pub(crate) wait: Option<Time>,
    pub(crate) max_renew: Option<Count>,
    pub(crate) min_hold: Option<Time>,
    pub(crate) mode: Mode,
    pub(crate) permits: Option<Count>,
    pub(crate) on_error: OnError,
    /// `on_busy = "skip"`
    pub(crate) skips_busy: bool,
    pub(crate) client: Option<Expr>,
    pub(crate) awaits_release: bool,
    pub(crate) reentrant: bool,
    /// `None`: `::redlock`.
    pub(crate) krate: Option<Path>,
}

pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let mut split = Split { options: Vec::new(), complete: true };
    let options = |input: ParseStream<'_>| split.read(input, errors);
    // This is syn's error for tokens that were left unread in brackets. A broken value has said
    // more.
    let unread = options.parse2(tokens).err();
    let Split { options, complete } = split;
    let is_whole = options.iter().all(|option| option.value.is_ok());
    unread.into_iter().filter(|_| is_whole).for_each(|unread| errors.push(unread));
    let mut seen: Vec<&str> = Vec::new();
    let mut names: Vec<Ident> = Vec::new();
    let mut listed = format!(" The options are {}", list(&KNOWN));
    for Assignment { name, value } in options {
        if args.formats(&name, value.is_err()) {
            let meant = value.map_or(name.to_string(), |value| value.to_token_stream().to_string());
            let message = format!(
                "`key` is a template, not a format string: write `<{meant}>` in it, as in \
                 `key = \"stock-<{meant}>\"`"
            );
            errors.at(name.span(), message);
            continue;
        }
        let Some(known) = known(&name, &mut seen, &mut listed, errors) else { continue };
        if let Some(message) = excluded(known, &seen) {
            errors.at(name.span(), message);
        }
        let value = errors.keep(value).map(values::ungroup);
        if let Some(value) = value.and_then(|value| values::without_suffix(value, errors)) {
            args.set(known, value, errors);
        }
        names.push(name);
    }
    args.check_kind(&names, errors);
    args.check_skip(&names, errors);
    // A part without a name was probably meant to be the key.
    if complete && !seen.iter().any(|name| matches!(*name, "key" | "keys")) {
        let message = "`#[redis_lock]` needs a key: `#[redis_lock(key = \"stock-<id>\")]`";
        errors.at(Span::call_site(), message);
    }
    args
}

struct Split {
    options: Vec<Assignment>,
    /// Every part had a name.
    complete: bool,
}

struct Assignment {
    name: Ident,
    value: syn::Result<Expr>,
}

impl Split {
    /// Splits at commas. A broken value is skipped up to the next comma, so that the rest is
    /// checked too.
    fn read(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<()> {
        while !input.is_empty() {
            let assignment = errors.keep(assignment(input));
            let has_value = assignment.as_ref().is_some_and(|one| one.value.is_ok());
            self.complete &= assignment.is_some();
            self.options.extend(assignment);
            let mut rest = None;
            while !input.is_empty() && !input.peek(Token![,]) {
                let token: TokenTree = input.parse()?;
                rest.get_or_insert(token.span());
            }
            if let (Some(span), true) = (rest, has_value) {
                errors.at(span, "expected `,` between options");
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(())
    }
}

fn assignment(input: ParseStream<'_>) -> syn::Result<Assignment> {
    let start = input.span();
    let name = input.call(Ident::parse_any).map_err(|_| {
        let options = list(&KNOWN);
        let example = "expected an option such as `key = \"stock-<id>\"`";
        Error::new(start, format!("{example}; the options are {options}"))
    })?;
    Ok(Assignment { value: value(input, &name), name })
}

fn value(input: ParseStream<'_>, name: &Ident) -> syn::Result<Expr> {
    if input.is_empty() || input.peek(Token![,]) {
        return Err(needs_value(name));
    }
    if !input.peek(Token![=]) || input.peek(Token![==]) {
        let message = format!("expected `=`, as in `{name} = ..`");
        return Err(Error::new(input.span(), message));
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(needs_value(name));
    }
    // A keyword where a word in quotes is meant: `release = await`.
    let ahead = input.fork();
    if let Ok(word) = ahead.call(Ident::parse_any)
        && (ahead.is_empty() || ahead.peek(Token![,]))
        && syn::parse_str::<Expr>(&word.to_string()).is_err()
    {
        let message = format!("`{word}` is a keyword; write it in quotes: `{name} = \"{word}\"`");
        return Err(Error::new(word.span(), message));
    }
    let written = first_value(&input.fork());
    let value = input.call(Expr::parse);
    if value.is_ok() && (input.is_empty() || input.peek(Token![,])) {
        return value;
    }
    if name == "key"
        && (value.is_err() || input.peek(Token![:]))
        && let Some(error) = without_quotes(&written)
    {
        return Err(error);
    }
    // The end of the last value is the end of the attribute, and the error would be about all.
    value.map_err(|error| {
        let is_cut_off = error.to_string().starts_with("unexpected end of input");
        if is_cut_off && input.is_empty() { Error::new_spanned(written, error) } else { error }
    })
}

/// The tokens before the next comma.
fn first_value(input: ParseStream<'_>) -> TokenStream {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        tokens.extend(input.parse::<TokenTree>());
    }
    tokens
}

/// The value of `key` is no expression, and has `<id>` in it. Not where it has a path, as in
/// `key_of::<Order>(id)`.
fn without_quotes(written: &TokenStream) -> Option<Error> {
    let trees: Vec<TokenTree> = written.clone().into_iter().collect();
    let is_sign = |at: usize, sign| is_punct(trees.get(at), sign);
    let is_name = |at: usize| matches!(trees.get(at), Some(TokenTree::Ident(_)));
    let mut places = 0..trees.len();
    let is_path = |at: usize| is_sign(at, ':') && is_sign(at + 1, ':');
    let open = places.clone().find(|at| is_sign(*at, '<') && is_name(at + 1))?;
    if places.clone().any(is_path) || !places.any(|at| at > open && is_sign(at, '>')) {
        return None;
    }
    let text: String = trees.iter().map(ToString::to_string).collect();
    let message = format!("a template is written in quotes: `key = \"{text}\"`");
    Some(Error::new_spanned(written, message))
}

fn needs_value(name: &Ident) -> Error {
    Error::new(name.span(), format!("`{name}` needs a value: `{name} = ..`"))
}

impl Args {
    /// Reports options that contradict the kind of the lock.
    fn check_kind(&self, names: &[Ident], errors: &mut Errors) {
        let given = |option: &str| names.iter().find(|name| name.unraw() == option);
        if let (Some(_), Some(permits)) = (given("mode"), given("permits")) {
            let message = "`mode` and `permits` are two kinds of locks; use one of them: \
                           `mode = \"read\"` admits any number of readers beside each other, \
                           `permits = 3` at most 3 holders";
            errors.at(permits.span(), message);
        }
        if let (true, Some(_), Some(mode)) = (self.mode == Mode::Read, given("keys"), given("mode"))
        {
            let message = "`keys` and `mode = \"read\"` exclude each other: several keys are \
                           locked together as exclusive locks only; take read locks one by one, \
                           in one order everywhere";
            errors.at(mode.span(), message);
        }
        let holds = !matches!(self.min_hold, None | Some(Time::Millis(0)));
        if let (true, Some(min_hold)) = (holds, given("min_hold")) {
            if given("keys").is_some() {
                let message = "`keys` and `min_hold` exclude each other: `min_hold` is for a job \
                               that runs once, so for one `key`; leave it out, or put a second \
                               `#[redis_lock]` with the key of the job and `min_hold` below this \
                               one";
                return errors.at(min_hold.span(), message);
            }
            let kind = match self.permits {
                Some(_) => "`permits`",
                None if self.mode == Mode::Read => "`mode = \"read\"`",
                None => return,
            };
            let message = format!(
                "`min_hold` cannot be combined with {kind}: it keeps a lock of a single holder"
            );
            errors.at(min_hold.span(), message);
        }
    }

    /// Reports a call that skips what is busy, and waits until it is not.
    fn check_skip(&self, names: &[Ident], errors: &mut Errors) {
        let skips = names.iter().find(|name| name.unraw() == "on_busy");
        if let (Some(Time::Forever), true, Some(skips)) = (&self.wait, self.skips_busy, skips) {
            let message = "`on_busy = \"skip\"` and `wait = \"forever\"` exclude each other: a \
                           call that waits without an end never finds the lock busy; write how \
                           long it waits before it skips, as in `wait = \"0s\"`";
            errors.at(skips.span(), message);
        }
    }

    /// Is `name` not an option, but a format argument for a key with braces? Braces with any other
    /// text are a hash tag.
    fn formats(&self, name: &Ident, is_bare: bool) -> bool {
        let Some(Key::Template(template)) = &self.key else { return false };
        let text = template.value();
        let is_named = [format!("{{{name}}}"), format!("{{{name}:")];
        let is_positional = ["{}", "{:", "{0"];
        !KNOWN.iter().any(|known| name.unraw() == known)
            && (is_named.iter().any(|open| text.contains(open))
                || is_bare && is_positional.iter().any(|open| text.contains(open)))
    }

    /// `key` beside `keys` is an error by now: the templates of both are checked.
    fn add_key(&mut self, key: Option<Key>) {
        self.key = match (self.key.take(), key) {
            (Some(first), Some(second)) => {
                Some(Key::Several(first.listed().into_iter().chain(second.listed()).collect()))
            }
            (first, second) => first.or(second),
        };
    }

    fn set(&mut self, name: &'static str, value: Expr, errors: &mut Errors) {
        match name {
            "key" => self.add_key(keys::key(value, errors)),
            "keys" => self.add_key(keys::keys(value, errors)),
            "expire" => self.expire = values::expire(value, errors),
            "wait" => self.wait = values::wait(value, errors),
            "max_renew" => self.max_renew = values::max_renew(value, errors),
            "min_hold" => self.min_hold = values::min_hold(value, errors),
            "mode" => self.mode = values::mode(&value, errors).unwrap_or(Mode::Write),
            "permits" => self.permits = values::permits(value, errors),
            "on_error" => {
                self.on_error = values::on_error(value, errors).unwrap_or(OnError::Convert);
            }
            "on_busy" => {
                self.skips_busy = values::skips_busy(&value, errors).unwrap_or_default();
            }
            "client" => self.client = values::plain(name, value, errors),
            "release" => {
                self.awaits_release = values::awaits_release(&value, errors).unwrap_or_default();
            }
            "reentrant" => self.reentrant = values::reentrant(&value, errors).unwrap_or(true),
            _ => self.krate = values::krate(value, errors),
        }
    }
}

impl Default for Args {
    fn default() -> Args {
        Args {
            key: None,
            expire: None,
            wait: None,
            max_renew: None,
            min_hold: None,
            mode: Mode::Write,
            permits: None,
            on_error: OnError::Convert,
            skips_busy: false,
            client: None,
            awaits_release: false,
            reentrant: true,
            krate: None,
        }
    }
}

#[cfg(test)]
mod tests;
