//! Checks that need both the options and the function: names in the key, and where the lock goes.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Error, Expr};

use crate::args::Args;
use crate::diagnostics::{Errors, closest, list};
use crate::hygiene;
use crate::item::Function;
use crate::keys::Key;
use crate::part::{Part, Value};
use crate::shape::{self, Hoisted, Shape};
use crate::template::{self, Template};
use crate::values::{Count, Time};
use crate::{control, traps, values};

/// Everything that the expansion quotes.
pub(crate) struct Plan {
    pub(crate) function: Function,
    pub(crate) args: Args,
    pub(crate) key: Option<KeyPlan>,
    pub(crate) shape: Shape,
    pub(crate) hoisted: Option<Hoisted>,
    /// The names whose hygiene the key adopts.
    pub(crate) names: Vec<Ident>,
}

impl Plan {
    /// All expressions that are evaluated before the body.
    pub(crate) fn read_before(&self) -> TokenStream {
        read_by(&self.args, self.key.as_ref())
    }
}

pub(crate) enum KeyPlan {
    Template(Template),
    Value(Expr),
    Several(Vec<KeyPlan>),
    Values(Expr),
}

impl KeyPlan {
    fn of(key: Key, errors: &mut Errors) -> Self {
        match key {
            Key::Template(literal) => Self::Template(template::parse(literal, errors)),
            Key::Value(value) => Self::Value(value),
            Key::Several(keys) => {
                Self::Several(keys.into_iter().map(|key| Self::of(key, errors)).collect())
            }
            Key::Values(values) => Self::Values(values),
        }
    }

    /// The keys of a list, or this one.
    pub(crate) fn each(&self) -> &[Self] {
        match self {
            Self::Several(keys) => keys,
            _ => std::slice::from_ref(self),
        }
    }

    /// The code of the user in it.
    pub(crate) fn code(&self) -> TokenStream {
        match self {
            Self::Template(template) => {
                values_of(template).map(|value| value.expr.to_token_stream()).collect()
            }
            Self::Value(value) | Self::Values(value) => value.to_token_stream(),
            Self::Several(keys) => keys.iter().map(Self::code).collect(),
        }
    }

    fn trap(&self, names: &[Ident]) -> Option<Error> {
        match self {
            Self::Template(template) => traps::in_template(template, names),
            Self::Value(value) | Self::Values(value) => traps::in_expression(value, names),
            Self::Several(keys) => keys.iter().find_map(|key| key.trap(names)),
        }
    }
}

/// `None`, possibly with errors, if the function cannot be locked as requested.
pub(crate) fn plan(mut args: Args, function: Function, errors: &mut Errors) -> Option<Plan> {
    let key = args.key.take().map(|key| KeyPlan::of(key, errors));
    let Some(shape) = shape::of(&function) else {
        errors.push(function.not_async());
        return None;
    };
    if let Shape::Built(built) = &shape
        && let Some((what, way_out)) = control::in_statements(&built.before)
    {
        let message = format!(
            "{what} ahead of the future would leave the function without the lock: move it into \
             the `async move` block"
        );
        errors.over(way_out, message);
        return None;
    }
    let mut names = function.names();
    let hoisted = match &shape {
        Shape::Async => None,
        Shape::Built(built) => Some(built.hoist(&names, function.boxed_by())),
    };
    let known: Vec<Ident> =
        names.iter().chain(hoisted.iter().flat_map(|hoisted| &hoisted.names)).cloned().collect();
    let read = read_by(&args, key.as_ref());
    let mut hoisted = hoisted.filter(|hoisted| {
        let is_new = |name: &&Ident| {
            !hygiene::is_one_of(name, &names) && Some(*name) != hoisted.this.as_ref()
        };
        let new: Vec<Ident> = hoisted.names.iter().filter(is_new).cloned().collect();
        function.boxed_by().is_some() || hygiene::mentions(read.clone(), &new)
    });
    if let Some(hoisted) = &mut hoisted {
        hoisted.formats_self = hygiene::formats_self(read.clone());
    }
    names.extend(hoisted.iter().flat_map(|hoisted| hoisted.names.clone()));
    for key in key.iter().flat_map(KeyPlan::each) {
        if let KeyPlan::Template(template) = key {
            check_names(template, &function, &names, errors);
        }
    }
    if errors.is_empty()
        && let Some(trap) = key.as_ref().and_then(|key| key.trap(&known))
    {
        errors.push(trap);
    }
    check_words(&args, &known, errors);
    check_twins(&function, &read, errors);
    Some(Plan { function, args, key, shape, hoisted, names })
}

/// All expressions that are evaluated before the body.
fn read_by(args: &Args, key: Option<&KeyPlan>) -> TokenStream {
    let mut tokens = key.map(KeyPlan::code).unwrap_or_default();
    args.client.to_tokens(&mut tokens);
    for count in [&args.max_renew, &args.permits].into_iter().flatten() {
        if let Count::Value(value) = count {
            value.to_tokens(&mut tokens);
        }
    }
    for time in [&args.expire, &args.wait, &args.min_hold].into_iter().flatten() {
        if let Time::Value(value) = time {
            value.to_tokens(&mut tokens);
        }
    }
    tokens
}

fn values_of(template: &Template) -> impl Iterator<Item = &Value> {
    template.parts.iter().filter_map(Part::value)
}

/// A placeholder can only name a parameter. This is checked here, because rustc would suggest to
/// replace the whole literal.
fn check_names(template: &Template, function: &Function, names: &[Ident], errors: &mut Errors) {
    let is_known = |name: &&Ident| {
        hygiene::is_one_of(name, names)
            || hygiene::is_constant(name)
            || function.is_const_generic(name)
    };
    for value in values_of(template) {
        let read = hygiene::reads(&value.expr).into_iter();
        let unknown = read.filter(|name| !is_known(name)).map(Ident::to_string);
        let blank = hygiene::reads_blank(&value.expr).then(|| "_".to_owned());
        for name in unknown.chain(blank) {
            let message = not_an_argument(&name, function, names);
            errors.push(template::error(&template.literal, value.start, value.end, message));
        }
    }
}

/// `wait = forever` would be a name that rustc does not find.
fn check_words(args: &Args, names: &[Ident], errors: &mut Errors) {
    let times = [("expire", &args.expire), ("wait", &args.wait), ("min_hold", &args.min_hold)];
    let times = times.into_iter().filter_map(|(option, time)| match time {
        Some(Time::Value(value)) => Some((option, value)),
        _ => None,
    });
    let count = match &args.max_renew {
        Some(Count::Value(value)) => Some(("max_renew", value)),
        _ => None,
    };
    for (option, value) in times.chain(count) {
        let Expr::Path(path) = value else { continue };
        let is_word =
            |word: &&Ident| !hygiene::is_one_of(word, names) && !hygiene::is_constant(word);
        let Some(word) = path.path.get_ident().filter(is_word) else { continue };
        if let Some(message) = values::instead_of_word(option, &word.to_string()) {
            errors.at(word.span(), message);
        }
    }
}

/// Two parameters of one name, of which a macro has named one: what the key reads would be the
/// first of them. Those under `#[cfg]` may be one parameter.
fn check_twins(function: &Function, read: &TokenStream, errors: &mut Errors) {
    let mut seen: Vec<Ident> = Vec::new();
    for binding in function.bindings().into_iter().filter(|binding| binding.cfgs.is_empty()) {
        let name = binding.name;
        let is_twin = hygiene::is_one_of(&name, &seen);
        if is_twin && hygiene::mentions(read.clone(), std::slice::from_ref(&name)) {
            let message = format!(
                "two parameters are called `{name}`, as a macro has named one of them, and the key \
                 or an option reads `{name}`: give one of them another name"
            );
            errors.at(name.span(), message);
        }
        seen.push(name);
    }
}

fn not_an_argument(name: &str, function: &Function, names: &[Ident]) -> String {
    // Names that another macro created must not be suggested.
    let shown = names.iter().map(Ident::to_string).filter(|name| !name.starts_with("__"));
    let shown: Vec<String> = shown.collect();
    let near = closest(name, shown.iter().map(String::as_str));
    // async_trait puts another name in place of a pattern, and takes that apart where the lock
    // looks, unless an attribute above has wrapped it.
    let params = function.names();
    let is_renamed = params.iter().any(|name| name.to_string().starts_with("__arg"));
    let is_wrapped = function.boxed_by().is_some() && is_renamed && params.len() == names.len();
    let hint = match near {
        _ if name == "_" => String::new(),
        _ if name == "self" => "this function has no `self`; ".to_owned(),
        Some(near) => format!("did you mean `{near}`? "),
        None if shown.iter().any(|name| name == "self") && !is_wrapped => {
            format!("did you mean `<self.{name}>`? ")
        }
        None => String::new(),
    };
    let arguments = match (shown.as_slice(), function.sig.inputs.len()) {
        ([], 0) => "it has no arguments".to_owned(),
        ([], _) => "none of its arguments has a name; give the one that the key reads a name \
                    instead of `_`"
            .to_owned(),
        ([one], 1) => format!("its only argument is `{one}`"),
        ([one], _) => format!("its only argument with a name is `{one}`"),
        _ => format!("its arguments are {}", list(&shown)),
    };
    let order = if is_wrapped {
        ". If another attribute such as `#[instrument]` stands above, move `#[redis_lock]` above it"
    } else {
        ""
    };
    format!("`{name}` is not an argument of `{}`: {hint}{arguments}{order}", function.sig.ident)
}
