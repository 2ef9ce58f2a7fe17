//! The models name the sources that their steps mirror. What they name is there: a name that is
//! left behind says that nobody has looked at the model when its source was changed.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Fields, ImplItem, Item, ItemImpl, TraitItem, Type};

use crate::lexer;
use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const MODELS: &str = "proof/models/src/";
const RUNTIME: &str = "redlock-runtime/src/";
/// A crate whose names need not be ours.
const FOREIGN: &str = "tokio::";

/// What a name may stand for.
#[derive(Default)]
struct Known {
    paths: Vec<String>,
    /// `Hold::extend`, `tally::elect`.
    members: BTreeSet<String>,
    /// Everything else, also what only the models have.
    words: BTreeSet<String>,
}

/// The members of one file.
struct Members<'a> {
    module: &'a str,
    found: &'a mut BTreeSet<String>,
}

impl Members<'_> {
    fn add(&mut self, of: &str, member: impl std::fmt::Display) {
        self.found.insert(format!("{of}::{member}"));
    }

    fn add_fields(&mut self, of: &str, fields: &Fields) {
        fields.iter().flat_map(|field| &field.ident).for_each(|field| self.add(of, field));
    }
}

impl<'ast> Visit<'ast> for Members<'_> {
    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        let Type::Path(path) = &*block.self_ty else { return };
        let Some(of) = path.path.segments.last().map(|part| part.ident.to_string()) else { return };
        for item in &block.items {
            match item {
                ImplItem::Fn(function) => self.add(&of, &function.sig.ident),
                ImplItem::Const(constant) => self.add(&of, &constant.ident),
                _ => {}
            }
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Fn(function) => self.add(self.module, &function.sig.ident),
            Item::Const(constant) => self.add(self.module, &constant.ident),
            Item::Struct(of) => self.add_fields(&of.ident.to_string(), &of.fields),
            Item::Enum(of) => {
                of.variants.iter().for_each(|one| self.add(&of.ident.to_string(), &one.ident));
            }
            Item::Trait(of) => {
                for item in &of.items {
                    if let TraitItem::Fn(function) = item {
                        self.add(&of.ident.to_string(), &function.sig.ident);
                    }
                }
            }
            // Nothing outside of them can mean what is in a module of tests.
            Item::Mod(_) => return,
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

impl Known {
    fn of(sources: &[Source]) -> Known {
        let mut known = Known::default();
        for source in sources {
            let is_model = source.path.starts_with(MODELS);
            if !is_model && !source.path.starts_with(RUNTIME) {
                continue;
            }
            if source.has_ext("lua") {
                let code = source.text.lines().filter_map(|line| line.split("--").next());
                known.words.extend(code.flat_map(words).map(str::to_owned));
            } else if source.has_ext("rs") {
                known.words.extend(lexer::tokens(source).into_iter().map(|found| found.text));
                if !is_model {
                    known.add_members(source);
                }
            }
            if !is_model {
                known.paths.push(source.path.clone());
            }
        }
        known
    }

    fn add_members(&mut self, source: &Source) {
        let file = syn::parse_file(&source.text);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", source.path));
        let module = source.path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        let module = module.rsplit('/').next().unwrap_or_default();
        Members { module, found: &mut self.members }.visit_file(&file);
    }

    fn has(&self, name: &str) -> bool {
        let is_letter = |c: char| c.is_alphanumeric() || "_:./{},".contains(c);
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let is_text = ending == "md" || !name.chars().all(is_letter);
        if is_text || name.starts_with(FOREIGN) {
            return true;
        }
        if matches!(ending, "rs" | "lua") {
            return alternatives(name)
                .iter()
                .all(|path| self.paths.iter().any(|own| own.ends_with(&format!("/{path}"))));
        }
        if name.contains("::") {
            return self.members.contains(name);
        }
        words(name).all(|word| self.words.contains(word) || word.parse::<u64>().is_ok())
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let between = |c: char| !c.is_alphanumeric() && c != '_';
    text.split(between).filter(|word| !word.is_empty())
}

/// `a/{b,c}.rs` stands for two files.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| {
        let (names, after) = rest.split_once('}')?;
        Some(names.split(',').map(|name| format!("{before}{name}{after}")).collect())
    });
    parts.unwrap_or_else(|| vec![path.to_owned()])
}

fn dead_names(model: &Source, known: &Known) -> Vec<String> {
    let mut found = Vec::new();
    for (n, line) in (1..).zip(model.text.lines()) {
        let Some((_, comment)) = line.split_once("//") else { continue };
        let names = comment.split('`').skip(1).step_by(2);
        for name in names.filter(|name| !known.has(name)) {
            found.push(format!("{}:{n}: `{name}` is not there (any more)", model.path));
        }
    }
    found
}

#[test]
fn what_the_models_mirror_is_there() {
    let sources = tree::all();
    let known = Known::of(&sources);
    let models = sources.iter().filter(|source| source.path.starts_with(MODELS));
    let models: Vec<_> = models.filter(|source| source.has_ext("rs")).collect();
    assert!(models.len() > 20, "the models are found");
    assert_none(&models.iter().flat_map(|model| dead_names(model, &known)).collect::<Vec<_>>());
}

#[test]
fn a_name_that_is_left_behind_is_found() {
    let runtime = "struct Hold { left: u8 }
        enum Phase { Idle }
        impl<T> Hold<T> { fn extend() {} }
        impl Drop for Hold { fn drop() {} }
        fn elect() {}
        #[cfg(test)] mod tests { fn checked() {} }";
    let sources = [
        Source::new("redlock-runtime/src/quorum/tally.rs", runtime),
        Source::new("redlock-runtime/src/quorum/renew.lua", "local room = 1 -- why"),
        Source::new("proof/models/src/a.rs", "fn own() {}"),
    ];
    let known = Known::of(&sources);
    let check = |comment: &str| {
        dead_names(&Source::new("proof/models/src/a.rs", &format!("{comment}\n")), &known)
    };
    for good in [
        "// `Hold::extend`, `Hold::drop`, `Hold::left`, `Phase::Idle` and `tally::elect`",
        "/// (`quorum/tally.rs`, `tally.rs`, `quorum/{tally,tally}.rs`, `renew.lua`)",
        "fn a() {} // `own`, `group.room`: `room`, `tokio::sync::Notify`, `a + b`, `*.lua`",
    ] {
        assert_none(&check(&good.replace("group.", "own.")));
    }
    for bad in [
        "// `Hold::step`",
        "// `Seat`",
        "// `why`",
        "// `tests::checked`",
        "// `tally::checked`",
        "// `extend::Hold`",
        "// `all.rs`",
        "// `quorum/{tally,other}.rs`",
        "// `scripts/renew.lua`",
    ] {
        assert_one(&check(bad), "a.rs:1");
    }
    assert_none(&check("let name = \"Seat\";"));
}
