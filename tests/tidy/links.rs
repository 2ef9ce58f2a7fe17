//! The README is a page on the web and the front page of the API documentation: its links have to
//! work on both, so they are whole URLs, and what they name is there.

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const API: &str = "https://docs.rs/redlock-runtime/latest/redlock/";

/// A link, or the definition of one, and where it stands.
struct Link {
    line: usize,
    text: String,
    /// `None`: defined elsewhere in the file.
    target: Option<String>,
    is_definition: bool,
}

/// Without code blocks, and without brackets in code: they are no links.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let hide = |(n, part): (usize, &str)| match n % 2 {
            0 => part.to_owned(),
            _ => part.replace(['[', ']', '(', ')'], "_"),
        };
        let parts: Vec<_> = line.split('`').enumerate().map(hide).collect();
        lines.push(if is_code || is_fence { String::new() } else { parts.join("`") });
    }
    lines.join("\n")
}

fn links(text: &str) -> Vec<Link> {
    let text = prose(text);
    let mut links = Vec::new();
    for (at, _) in text.match_indices('[') {
        let Some((name, rest)) = text[at + 1..].split_once(']') else { continue };
        let is_definition =
            rest.starts_with(": ") && text[..at].chars().next_back().is_none_or(|c| c == '\n');
        let target = match rest.chars().next() {
            Some('[') => continue,
            Some('(') => rest[1..].split(')').next(),
            _ if is_definition => rest[2..].lines().next(),
            _ => None,
        };
        let line = text[..at].matches('\n').count() + 1;
        let text = name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        links.push(Link { line, text, target: target.map(str::to_owned), is_definition });
    }
    links
}

fn rustdoc_only(readme: &Source) -> Vec<String> {
    let links = links(&readme.text);
    let is_defined = |name: &str| links.iter().any(|link| link.is_definition && link.text == name);
    let is_good = |link: &&Link| match &link.target {
        Some(target) => target.starts_with("https://") || target.starts_with('#'),
        None => is_defined(&link.text),
    };
    let bad = links.iter().filter(|link| !is_good(link));
    bad.map(|Link { line, text, .. }| {
        format!("{}:{line}: [{text}] has no URL; only rustdoc could resolve it", readme.path)
    })
    .collect()
}

/// `struct.Lease.html#method.check`: whether the API has that.
fn is_in_api(page: &str, sources: &[Source]) -> bool {
    let (page, member) = page.split_once('#').unwrap_or((page, ""));
    let mut parts = page.split('.');
    let (kind, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let api = || sources.iter().filter(|source| source.path.starts_with("redlock-runtime/src/"));
    let has = |words: &str| {
        let mut lines = api().flat_map(|source| source.text.lines());
        lines.any(|line| {
            let rest = line.trim_start().replace("pub async fn", "pub fn");
            let rest = rest.strip_prefix(words).map(str::to_owned);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
    };
    let has_member = match member.split_once('.') {
        None => member.is_empty(),
        Some(("variant", variant)) => has(variant),
        Some((_, method)) => has(&format!("pub fn {method}")),
    };
    has(&format!("pub {kind} {name}")) && has_member
}

fn broken(readme: &Source, repository: &str, sources: &[Source]) -> Vec<String> {
    let files = format!("{repository}/blob/main/");
    let is_broken = |target: &str| {
        if let Some(path) = target.strip_prefix(&files) {
            return !sources.iter().any(|source| source.path == path);
        }
        target.strip_prefix(API).is_some_and(|page| !is_in_api(page, sources))
    };
    let targets =
        links(&readme.text).into_iter().filter_map(|link| Some((link.line, link.target?)));
    let bad = targets.filter(|(_, target)| is_broken(target));
    bad.map(|(n, target)| format!("{}:{n}: nothing is at {target}", readme.path)).collect()
}

#[test]
fn the_links_of_the_readme_work_on_the_web_and_in_rustdoc() {
    let all = tree::all();
    let text = |path: &str| all.iter().find(|source| source.path == path);
    let manifest = &text("Cargo.toml").expect("the workspace has a manifest").text;
    let repository = manifest.lines().find_map(|line| line.strip_prefix("repository = "));
    let repository = repository.expect("the manifest names the repository").trim_matches('"');
    if let Some(readme) = text("README.md") {
        assert_none(&rustdoc_only(readme));
        assert_none(&broken(readme, repository, &all));
    }
}

#[test]
fn the_link_check_can_fail() {
    let readme = |text: &str| Source::new("README.md", text);
    for (text, part) in [
        ("see\n[`Lease`]", "README.md:2: [`lease`]"),
        ("[the lease][`Lease`]", "[`lease`]"),
        ("[`Lost`](LockError::Lost)", "[`lost`]"),
        ("[why](docs/safety.md)", "[why]"),
        ("[`Lease`]\n\n[`Lease`]: crate::Lease", "README.md:3"),
    ] {
        assert_one(&rustdoc_only(&readme(text)), part);
    }
    let good = "[`Lease`], `a[0]`, `#[lock]`, [b](https://b), [c](#c)\n```rust\n#[d]\n```\n\n";
    let readme = readme(&format!("{good}[`Lease`]: {API}struct.Lease.html#method.check"));
    assert_none(&rustdoc_only(&readme));
    let lease = "pub struct Lease;\n    pub fn check(&self)\n    Lost,";
    let api = |text: &str| [Source::new("redlock-runtime/src/lease.rs", text)];
    assert_none(&broken(&readme, "https://r", &api(lease)));
    assert_one(
        &broken(&readme, "https://r", &api(&lease.replace("check", "checks"))),
        "README.md:6",
    );
    assert_one(&broken(&readme, "https://r", &api(&lease.replace("Lease", "Leases"))), "Lease");
    assert!(is_in_api("enum.E.html#variant.Lost", &api("pub enum E {\n    Lost,")));
    assert!(!is_in_api("enum.E.html#variant.Los", &api("pub enum E {\n    Lost,")));
    let file = Source::new("README.md", "[a](https://r/blob/main/docs/a.md)");
    assert_one(&broken(&file, "https://r", &[]), "docs/a.md");
    assert_none(&broken(&file, "https://r", &[Source::new("docs/a.md", "")]));
}
