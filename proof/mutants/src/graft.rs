//! Grafts mutants into a source file: each becomes a branch that `crate::mutant(number)` chooses
//! when the program runs, so that one build holds them all.

use std::collections::BTreeMap;
use std::ops::Range;

use syn::visit::{self, Visit};

use crate::list::{Genre, Mutant};
use crate::text::{Insertion, Text};

/// A file with its mutants in it.
#[derive(Debug)]
pub struct Grafted {
    pub text: String,
    /// Which part of `text` is which mutant.
    parts: Vec<(Range<usize>, usize)>,
    /// Which part of `text` has these mutants in it, or what they replace.
    sites: Vec<(Range<usize>, Vec<usize>)>,
    /// The mutants that have a branch.
    pub alive: Vec<usize>,
}

impl Grafted {
    /// Whose fault an error at `place` is: the mutants written there, else those of the innermost
    /// site around it.
    pub fn culprits(&self, place: &Range<usize>) -> Vec<usize> {
        let is_there = |range: &Range<usize>| range.start <= place.start && place.end <= range.end;
        let written = self.parts.iter().filter(|(range, _)| is_there(range));
        let written: Vec<_> = written.map(|(_, mutant)| *mutant).collect();
        if !written.is_empty() {
            return written;
        }
        let around = self.sites.iter().filter(|(range, _)| is_there(range));
        around
            .min_by_key(|(range, _)| range.len())
            .map_or(Vec::new(), |(_, mutants)| mutants.clone())
    }
}

/// `whole` with those of `mutants` (by their numbers) in it that can be grafted.
pub fn graft(whole: &str, mutants: &BTreeMap<usize, &Mutant>) -> Grafted {
    let text = Text::new(whole);
    let file = syn::parse_file(whole).expect("what compiles can be parsed");
    let mut by_range: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let range = (text.offset(mutant.span.start), text.offset(mutant.span.end));
        by_range.entry(range).or_default().push(*number);
    }
    let mut visitor = Grafter { text: &text, mutants, by_range, sites: Vec::new() };
    visitor.visit_file(&file);
    assemble(whole, &visitor.sites)
}

/// A node of the syntax, and what goes before and behind it.
struct Site {
    range: Range<usize>,
    before: Insertion,
    behind: &'static str,
    mutants: Vec<usize>,
}

struct Grafter<'a> {
    text: &'a Text<'a>,
    mutants: &'a BTreeMap<usize, &'a Mutant>,
    by_range: BTreeMap<(usize, usize), Vec<usize>>,
    sites: Vec<Site>,
}

impl Grafter<'_> {
    /// The mutants of `genre` that replace exactly `range`, with what they put there.
    fn at(&self, range: &Range<usize>, genre: Genre) -> Vec<(usize, &str)> {
        let there = self.by_range.get(&(range.start, range.end)).into_iter().flatten();
        let there = there.map(|number| (*number, self.mutants[number]));
        there
            .filter(|(_, mutant)| mutant.genre == genre)
            .map(|(number, mutant)| (number, mutant.replacement.as_str()))
            .collect()
    }

    /// An expression that is one of `branches` where its mutant is chosen, else itself.
    fn choose(&mut self, range: Range<usize>, head: &str, branches: &[(usize, String)]) {
        let mut before = Insertion::default();
        before.push(head);
        before.push("(");
        for (mutant, branch) in branches {
            before
                .push_mutant(*mutant, &format!("if crate::mutant({mutant}) {{ {branch} }} else "));
        }
        before.push("{ ");
        let mutants = branches.iter().map(|(mutant, _)| *mutant).collect();
        self.sites.push(Site { range, before, behind: " })", mutants });
    }

    fn body(&mut self, block: &syn::Block) {
        let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) else { return };
        let range = self.text.range(first).start..self.text.range(last).end;
        let values = self.at(&range, Genre::FnValue);
        let mut before = Insertion::default();
        for (mutant, value) in &values {
            let value = format!("if crate::mutant({mutant}) {{ return {value}; }} ");
            before.push_mutant(*mutant, &value);
        }
        let mutants = values.iter().map(|(mutant, _)| *mutant).collect();
        self.sites.push(Site { range, before, behind: "", mutants });
    }
}

impl<'ast> Visit<'ast> for Grafter<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.body(&item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.body(&item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let operator = self.text.range(&binary.op);
        let (left, right) = (self.text.of(&*binary.left), self.text.of(&*binary.right));
        // `let` has a meaning in the condition of an `if` only.
        if !has_let(&binary.left) && !has_let(&binary.right) {
            let branches: Vec<_> = self
                .at(&operator, Genre::BinaryOperator)
                .into_iter()
                .map(|(mutant, other)| (mutant, operation(left, other, right)))
                .collect();
            if !branches.is_empty() {
                self.choose(self.text.range(binary), "", &branches);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let operator = self.text.range(&unary.op);
        let operand = self.text.of(&*unary.expr);
        let there = self.at(&operator, Genre::UnaryOperator);
        let branches: Vec<_> =
            there.into_iter().map(|(mutant, _)| (mutant, operand.to_owned())).collect();
        if !branches.is_empty() {
            self.choose(self.text.range(unary), "", &branches);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, item: &'ast syn::ExprMatch) {
        // An arm with a guard counts for nothing where all cases have to be covered: the compiler
        // says so of the whole.
        let arms = item.arms.iter().flat_map(|arm| self.at(&self.text.range(arm), Genre::MatchArm));
        let mutants: Vec<_> = arms.map(|(mutant, _)| mutant).collect();
        if !mutants.is_empty() {
            let (range, before) = (self.text.range(item), Insertion::default());
            self.sites.push(Site { range, before, behind: "", mutants });
        }
        visit::visit_expr_match(self, item);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let deleted = self.at(&self.text.range(arm), Genre::MatchArm);
        let deleted: Vec<usize> = deleted.into_iter().map(|(mutant, _)| mutant).collect();
        let mut before = Insertion::default();
        for mutant in &deleted {
            before.push_mutant(*mutant, &format!("!crate::mutant({mutant})"));
        }
        let syn::Pat::Guard(guarded) = &arm.pat else {
            if !deleted.is_empty() {
                before.text.insert_str(0, " if ");
                before.parts[0].0 = 0..before.text.len();
                let end = self.text.range(&arm.pat).end;
                self.sites.push(Site { range: end..end, before, behind: "", mutants: deleted });
            }
            return visit::visit_arm(self, arm);
        };
        let range = self.text.range(&*guarded.guard);
        let mut mutants = deleted.clone();
        if !deleted.is_empty() {
            before.push(" && ");
        }
        before.push("(");
        // What is always true goes first: `&&` binds tighter.
        let mut guards = self.at(&range, Genre::MatchArmGuard);
        guards.sort_unstable_by_key(|(_, value)| *value != "true");
        for (mutant, value) in guards {
            let (not, and) = if value == "true" { ("", "||") } else { ("!", "&&") };
            before.push_mutant(mutant, &format!("{not}crate::mutant({mutant}) {and} "));
            mutants.push(mutant);
        }
        if mutants.is_empty() {
            return visit::visit_arm(self, arm);
        }
        before.push("(");
        self.sites.push(Site { range, before, behind: "))", mutants });
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, item: &'ast syn::ExprStruct) {
        let rest = item.rest.as_ref().map(|rest| self.text.of(&**rest));
        for field in &item.fields {
            let Some(rest) = rest else { continue };
            // The span of the mutant may have the comma behind the field in it.
            let range = self.text.range(field);
            let there: Vec<_> = self
                .by_range
                .iter()
                .filter(|((start, end), _)| *start == range.start && *end >= range.end)
                .flat_map(|(_, numbers)| numbers.iter().copied())
                .filter(|number| self.mutants[number].genre == Genre::StructField)
                .collect();
            let syn::Member::Named(name) = &field.member else { continue };
            let branches: Vec<_> =
                there.iter().map(|mutant| (*mutant, format!("({rest}).{name}"))).collect();
            if !branches.is_empty() {
                let head =
                    if field.colon_token.is_some() { String::new() } else { format!("{name}: ") };
                self.choose(self.text.range(&field.expr), &head, &branches);
            }
        }
        visit::visit_expr_struct(self, item);
    }
}

/// `left` and `right` with another operator between them.
fn operation(left: &str, operator: &str, right: &str) -> String {
    if operator.ends_with('=') && !["==", "!=", "<=", ">="].contains(&operator) {
        // What is assigned to is a place: no parentheses.
        return format!("{left} {operator} {right}");
    }
    format!("({left}) {operator} ({right})")
}

fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Puts the insertions of `sites` into `whole`: an outer node's around an inner one's.
fn assemble(whole: &str, sites: &[Site]) -> Grafted {
    let mut cuts: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (index, site) in sites.iter().enumerate() {
        let Range { start, end } = site.range;
        cuts.push((start, 1, usize::MAX - end, index));
        cuts.push((end, if start == end { 2 } else { 0 }, usize::MAX - start, index));
    }
    cuts.sort_unstable();
    let mut grafted =
        Grafted { text: String::new(), parts: Vec::new(), sites: Vec::new(), alive: Vec::new() };
    let mut starts = vec![0; sites.len()];
    let mut done = 0;
    for (at, side, _, index) in cuts {
        grafted.text.push_str(&whole[done..at]);
        done = at;
        let site = &sites[index];
        if side == 1 {
            starts[index] = grafted.text.len();
            let base = grafted.text.len();
            let parts = site.before.parts.iter();
            grafted
                .parts
                .extend(parts.map(|(part, mutant)| (base + part.start..base + part.end, *mutant)));
            grafted.text.push_str(&site.before.text);
        } else {
            grafted.text.push_str(site.behind);
            let range = starts[index]..grafted.text.len();
            grafted.sites.push((range, site.mutants.clone()));
            grafted.alive.extend(&site.mutants);
        }
    }
    grafted.alive.sort_unstable();
    grafted.alive.dedup();
    grafted.text.push_str(&whole[done..]);
    grafted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list;
    use crate::text::Place;

    /// A mutant where `old` stands in the only line of a text.
    fn mutant(text: &str, genre: Genre, old: &str, replacement: &str) -> Mutant {
        let column = text.find(old).unwrap() + 1;
        let at = |column| Place { line: 1, column };
        let span = list::Range { start: at(column), end: at(column + old.len()) };
        let (file, name) = (String::new(), String::new());
        Mutant { file, genre, name, replacement: replacement.to_owned(), span }
    }

    fn grafted(text: &str, mutants: &[Mutant]) -> String {
        let grafted = graft(text, &mutants.iter().enumerate().collect());
        assert_eq!(grafted.alive.len(), mutants.len(), "{}", grafted.text);
        syn::parse_file(&grafted.text).unwrap();
        grafted.text
    }

    #[test]
    fn a_body_returns_early_and_an_operator_has_another_one_beside_it() {
        let text = "fn f() -> u8 { a + b * c }";
        let mutants = [
            mutant(text, Genre::FnValue, "a + b * c", "1"),
            mutant(text, Genre::BinaryOperator, "+", "-"),
            mutant(text, Genre::BinaryOperator, "*", "/"),
        ];
        assert_eq!(
            grafted(text, &mutants),
            "fn f() -> u8 { if crate::mutant(0) { return 1; } \
             (if crate::mutant(1) { (a) - (b * c) } else { a + \
             (if crate::mutant(2) { (b) / (c) } else { b * c }) }) }"
        );
    }

    #[test]
    fn an_arm_is_deleted_by_a_guard_and_guards_say_yes_or_no() {
        let text = "fn f() { match x { A => {} B if g => {} _ => !y } }";
        let mutants = [
            mutant(text, Genre::MatchArm, "A => {}", ""),
            mutant(text, Genre::MatchArmGuard, "g", "false"),
            mutant(text, Genre::MatchArmGuard, "g", "true"),
            mutant(text, Genre::UnaryOperator, "!", ""),
        ];
        assert_eq!(
            grafted(text, &mutants),
            "fn f() { match x { A if !crate::mutant(0) => {} \
             B if (crate::mutant(2) || !crate::mutant(1) && (g)) => {} \
             _ => (if crate::mutant(3) { y } else { !y }) } }"
        );
    }

    #[test]
    fn a_field_that_is_deleted_comes_from_the_rest() {
        let text = "fn f() { S { a, b: 1, ..S::new() } }";
        let mutants = [
            mutant(text, Genre::StructField, "a,", ""),
            mutant(text, Genre::StructField, "b: 1,", ""),
        ];
        assert_eq!(
            grafted(text, &mutants),
            "fn f() { S { a: (if crate::mutant(0) { (S::new()).a } else { a }), \
             b: (if crate::mutant(1) { (S::new()).b } else { 1 }), ..S::new() } }"
        );
    }

    #[test]
    fn an_error_is_the_fault_of_the_mutant_it_points_at() {
        let text = "fn f() -> u8 { a + b }";
        let mutants = [
            mutant(text, Genre::FnValue, "a + b", "1"),
            mutant(text, Genre::BinaryOperator, "+", "-"),
        ];
        let grafted = graft(text, &mutants.iter().enumerate().collect());
        let place = |part: &str| {
            let start = grafted.text.find(part).unwrap();
            start..start + part.len()
        };
        assert_eq!(grafted.culprits(&place("return 1")), [0]);
        assert_eq!(grafted.culprits(&place("(a) - (b)")), [1]);
        assert_eq!(grafted.culprits(&place("a + b")), [1]);
        assert_eq!(grafted.culprits(&place("fn f")), Vec::<usize>::new());
    }
}
