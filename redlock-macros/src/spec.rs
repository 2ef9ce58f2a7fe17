//! The options of the lock, and its name.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::LitStr;
use syn::spanned::Spanned;

use crate::args::Args;
use crate::plan::{KeyPlan, Plan};
use crate::quoting::{Chain, adopt, mixed, private};
use crate::source_text::source_text;
use crate::values::{Count, Mode, Time};

/// Options that were left out are not set: the client's defaults apply.
pub(crate) fn spec(plan: &Plan) -> TokenStream {
    let at = Span::mixed_site();
    let (private, args) = (private(plan, at), &plan.args);
    let template = template_name(plan);
    let millis = |ms: &u64| quote_spanned!(at=> #private::Duration::from_millis(#ms));
    let duration = |time: &Time| match time {
        Time::Value(value) => adopt(plan, value),
        Time::Millis(ms) => millis(ms),
        Time::Never | Time::Forever => unreachable!("refused when it was parsed"),
    };
    let count = |count: &Count| match count {
        Count::Value(value) => adopt(plan, value),
        Count::Known(count) => count.to_token_stream(),
    };
    let mut spec = Chain::new(quote_spanned!(at=> #private::Spec::new(#template)));
    // What is known when the program is compiled stays one constant.
    let add = if is_constant(args) { Chain::add } else { Chain::add_read };
    if let Some(expire) = &args.expire {
        let expire = duration(expire);
        add(&mut spec, quote_spanned!(at=> .expire(#expire)));
    }
    if let Some(wait) = &args.wait {
        let wait = match wait {
            Time::Never => quote_spanned!(at=> #private::Wait::Never),
            Time::Forever => quote_spanned!(at=> #private::Wait::Forever),
            Time::Value(value) => {
                let at = mixed(value.span());
                let (private, value) = (self::private(plan, at), adopt(plan, value));
                quote_spanned!(at=> #private::wait(#value))
            }
            Time::Millis(ms) => {
                let wait = millis(ms);
                quote_spanned!(at=> #private::Wait::AtMost(#wait))
            }
        };
        add(&mut spec, quote_spanned!(at=> .wait(#wait)));
    }
    if let Some(renewals) = args.max_renew.as_ref().map(count) {
        add(&mut spec, quote_spanned!(at=> .max_renew(#renewals)));
    }
    if let Some(min_hold) = &args.min_hold {
        let min_hold = duration(min_hold);
        add(&mut spec, quote_spanned!(at=> .min_hold(#min_hold)));
    }
    if args.mode == Mode::Read {
        spec.add(quote_spanned!(at=> .read()));
    }
    if let Some(permits) = args.permits.as_ref().map(count) {
        add(&mut spec, quote_spanned!(at=> .permits(#permits)));
    }
    if !args.reentrant {
        spec.add(quote_spanned!(at=> .not_reentrant()));
    }
    if args.awaits_release {
        spec.add(quote_spanned!(at=> .awaited_release()));
    }
    if args.skips_busy {
        spec.add(quote_spanned!(at=> .skips_busy()));
    }
    spec.end_with(&TokenStream::new())
}

/// Are all options known when the program is compiled?
pub(crate) fn is_constant(args: &Args) -> bool {
    let is_time = |time: &Option<Time>| matches!(time, Some(Time::Value(_)));
    let is_count = |count: &Option<Count>| matches!(count, Some(Count::Value(_)));
    let Args { expire, wait, min_hold, max_renew, permits, .. } = args;
    ![expire, wait, min_hold].into_iter().any(is_time)
        && ![max_renew, permits].into_iter().any(is_count)
}

/// The name of the lock in spans and metrics: never a rendered key, of which there may be millions.
pub(crate) fn template_name(plan: &Plan) -> LitStr {
    let (names, spans): (Vec<_>, Vec<_>) =
        plan.key.iter().flat_map(KeyPlan::each).map(name).unzip();
    let span = spans.first().copied().unwrap_or_else(Span::call_site);
    LitStr::new(&names.join(", "), mixed(span))
}

fn name(key: &KeyPlan) -> (String, Span) {
    match key {
        KeyPlan::Template(template) => (template.literal.value(), template.literal.span()),
        KeyPlan::Value(value) | KeyPlan::Values(value) => {
            (source_text(value.to_token_stream()), value.span())
        }
        KeyPlan::Several(_) => (String::new(), Span::call_site()),
    }
}
