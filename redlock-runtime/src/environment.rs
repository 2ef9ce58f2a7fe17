//! A client from the variables of the environment.

use std::env::VarError;

use crate::backend::{Tls, check_url};
use crate::client::{Redlock, RedlockBuilder};
use crate::error::LockError;

const VARIABLES: [&str; 8] = [
    "REDLOCK_URLS",
    "REDIS_URL",
    SENTINEL,
    CLUSTER,
    PREFIX,
    "REDLOCK_TLS_CA",
    "REDLOCK_TLS_CERT",
    "REDLOCK_TLS_KEY",
];

const SENTINEL: &str = "REDLOCK_SENTINEL";
const CLUSTER: &str = "REDLOCK_CLUSTER";
const PREFIX: &str = "REDLOCK_PREFIX";

impl RedlockBuilder {
    /// A builder from the environment, which more options can be added to: what
    /// [`init_from_env`](crate::init_from_env) builds, whose documentation lists the variables.
    ///
    /// # Errors
    /// [`LockError::Config`] when no server is named, a value cannot work, a file cannot be read,
    /// or a variable needs a feature that is not compiled in.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::RedlockBuilder;
    ///
    /// match RedlockBuilder::from_env() {
    ///     // `init_from_env`, with two options more
    ///     Ok(builder) => drop(redlock::init(builder.client_name("web-3").lazy()).await?),
    ///     Err(error) => assert!(error.to_string().contains("set REDIS_URL"), "{error}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn from_env() -> Result<Self, LockError> {
        from_readable(|name| std::env::var(name))
    }
}

/// Fails first for a variable that cannot be read: it does not stand for the default. A client with
/// another prefix than the one that was meant excludes nobody.
fn from_readable(
    variable: impl Fn(&str) -> Result<String, VarError>,
) -> Result<RedlockBuilder, LockError> {
    let is_unreadable = |name: &&str| matches!(variable(name), Err(VarError::NotUnicode(_)));
    match VARIABLES.into_iter().find(is_unreadable) {
        Some(name) => Err(LockError::config(format!("{name} is not valid UTF-8"))),
        None => from_variables(|name| variable(name).ok()),
    }
}

fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<RedlockBuilder, LockError> {
    let set = |name| variable(name).filter(|value| !value.trim().is_empty());
    let many = set("REDLOCK_URLS").map(|urls| ("REDLOCK_URLS", split(&urls)));
    let one = || set("REDIS_URL").map(|url| ("REDIS_URL", vec![url.trim().to_owned()]));
    let Some((name, urls)) = many.or_else(one) else {
        return Err(LockError::config(
            "no server is named; set REDIS_URL (or REDLOCK_URLS), for example to \
             redis://127.0.0.1:6379",
        ));
    };
    if urls.is_empty() {
        return Err(LockError::config(format!(
            "{name} names no server: it has nothing but commas and white space; set it to a URL, \
             for example to redis://127.0.0.1:6379, or leave it out"
        )));
    }
    for (place, url) in (1..).zip(&urls) {
        check(url, || format!("URL {place} of {} in {name}", urls.len()))?;
    }
    let master = set(SENTINEL).map(|master| master.trim().to_owned());
    let is_cluster = set(CLUSTER).is_some_and(|value| is_yes(&value));
    let builder = Redlock::builder().with_tls(Tls::from_variables(set)?);
    let builder = match set(PREFIX) {
        Some(prefix) => builder.prefix(bare_prefix(prefix)?),
        None => builder,
    };
    at(builder, urls, master.as_deref(), is_cluster)
}

/// Fails for white space that nobody sees in a file of variables: the keys would be others than
/// those of the processes without it.
fn bare_prefix(prefix: String) -> Result<String, LockError> {
    if prefix.trim() == prefix {
        return Ok(prefix);
    }
    Err(LockError::config(format!(
        "{PREFIX} is `{}`, with white space at its ends, so that its locks would exclude nobody \
         who has it without; take the white space out, or call `.prefix(..)` where it is meant",
        prefix.escape_debug()
    )))
}

/// Fails for a URL that cannot work. The error may show nothing of it that could be a password.
fn check(url: &str, place: impl Fn() -> String) -> Result<(), LockError> {
    check_url(url).map_err(|error| match error {
        LockError::Config { message } => LockError::config(format!("{}: {message}", place())),
        other => other,
    })
}

/// Adds the servers: masters, or the sentinels of a `master`, or members of a cluster.
fn at(
    builder: RedlockBuilder,
    urls: Vec<String>,
    master: Option<&str>,
    is_cluster: bool,
) -> Result<RedlockBuilder, LockError> {
    if master.is_some() && is_cluster {
        let message = format!("{SENTINEL} and {CLUSTER} exclude each other; set one of them");
        return Err(LockError::config(message));
    }
    for (name, is_wanted, feature, is_there) in [
        (SENTINEL, master.is_some(), "sentinel", cfg!(feature = "sentinel")),
        (CLUSTER, is_cluster, "cluster", cfg!(feature = "cluster")),
    ] {
        if is_wanted && !is_there {
            return Err(LockError::config(format!(
                "{name} is set, but this program knows no {feature}; build redlock with its \
                 feature `{feature}`: `redlock-runtime = {{ features = [\"{feature}\"] }}`"
            )));
        }
    }
    #[cfg(feature = "sentinel")]
    if let Some(master) = master {
        // A name without a login is no URL.
        if master.contains("://") {
            check(master, || format!("the value of {SENTINEL}"))?;
        }
        return Ok(builder.sentinel(urls, master));
    }
    #[cfg(feature = "cluster")]
    if is_cluster {
        return Ok(builder.cluster(urls));
    }
    Ok(builder.urls(urls))
}

/// How the value of a switch is read, which is not blank.
pub(crate) fn is_yes(value: &str) -> bool {
    const NO: [&str; 6] = ["0", "n", "no", "f", "false", "off"];
    !NO.contains(&value.trim().to_lowercase().as_str())
}

/// The URLs in a list. A comma in a password does not end a URL: after the end of a URL, another
/// scheme follows.
pub(crate) fn split(list: &str) -> Vec<String> {
    let is_scheme =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'+');
    let begins = |part: &str| part.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme));
    let mut urls: Vec<String> = Vec::new();
    for part in list.split(',') {
        match urls.last_mut() {
            Some(url) if !begins(part.trim_start()) => url.extend([",", part]),
            _ => urls.push(part.to_owned()),
        }
    }
    let bare =
        urls.iter().map(|url| url.trim_matches(|end: char| end == ',' || end.is_whitespace()));
    bare.filter(|url| !url.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(variables: &[(&str, &str)]) -> Result<String, LockError> {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        from_variables(find).map(|builder| format!("{builder:?}"))
    }

    #[test]
    fn the_environment_names_the_servers_and_the_prefix() {
        let one = builder(&[("REDIS_URL", "redis://a"), ("REDLOCK_PREFIX", "shop:")]).unwrap();
        assert!(one.contains("nodes: 1") && one.contains("shop:"), "{one}");
        let many = builder(&[("REDLOCK_URLS", "redis://a, redis://b,"), ("REDIS_URL", "x")]);
        assert!(many.unwrap().contains("nodes: 2"));
        let one = builder(&[("REDIS_URL", "redis://:pass,word@a")]).unwrap();
        assert!(one.contains("nodes: 1"), "{one}");
    }

    #[test]
    fn a_comma_in_a_password_does_not_end_a_url() {
        let one = "redis://:pa,ss, word,@a";
        assert_eq!(split(one), [one]);
        let list = format!(" {one} ,rediss://u:,@b:1/2,,\n unix:///c , ");
        assert_eq!(split(&list), [one, "rediss://u:,@b:1/2", "unix:///c"]);
        assert_eq!(split(" , ,"), [""; 0]);
    }

    #[test]
    fn a_url_that_cannot_work_is_told_by_its_place() {
        for (name, value, place) in [
            ("REDIS_URL", "secret@host:6379", "URL 1 of 1 in REDIS_URL: "),
            ("REDLOCK_URLS", "redis://a,redis://b#insecure", "URL 2 of 2 in REDLOCK_URLS: "),
        ] {
            let text = builder(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(place) && !text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn a_blank_prefix_is_the_default_one() {
        for blank in ["", " ", "\t"] {
            let built = builder(&[("REDIS_URL", "redis://a"), ("REDLOCK_PREFIX", blank)]).unwrap();
            assert!(built.contains("prefix: \"lock:\""), "{built}");
        }
    }

    #[test]
    fn a_prefix_with_white_space_at_its_ends_is_refused() {
        for prefix in ["shop: ", " shop:", "shop:\n"] {
            let set = [("REDIS_URL", "redis://a"), ("REDLOCK_PREFIX", prefix)];
            let error = builder(&set).unwrap_err();
            assert!(matches!(error, LockError::Config { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("REDLOCK_PREFIX") && text.contains("white space"), "{text}");
        }
        let inside = [("REDIS_URL", "redis://a"), ("REDLOCK_PREFIX", "my shop:")];
        assert!(builder(&inside).unwrap().contains("my shop:"));
    }

    #[test]
    fn a_list_without_a_url_is_named() {
        for list in [",", " , ,"] {
            let set = [("REDLOCK_URLS", list), ("REDIS_URL", "redis://a")];
            let text = builder(&set).unwrap_err().to_string();
            assert!(text.contains("REDLOCK_URLS names no server"), "{text}");
        }
    }

    #[test]
    fn urls_that_are_separated_wrongly_are_told_how() {
        for (name, list) in [
            ("REDLOCK_URLS", "redis://:secret@a:1;redis://:secret@b:2"),
            ("REDLOCK_URLS", "redis://:secret@a:1 redis://:secret@b:2"),
            ("REDLOCK_URLS", "redis://:secret@a\nredis://:secret@b"),
            ("REDIS_URL", "redis://:secret@a,redis://:secret@b"),
            ("REDIS_URL", "redis://:secret@a:1,redis://:secret@b:2/0"),
        ] {
            let text = builder(&[(name, list)]).unwrap_err().to_string();
            assert!(text.contains("separated by commas"), "{list}: {text}");
            assert!(text.contains("REDLOCK_URLS") && !text.contains("secret"), "{text}");
        }
        let text = builder(&[("REDIS_URL", "redis://a:port")]).unwrap_err().to_string();
        assert!(!text.contains("commas"), "{text}");
    }

    #[cfg(feature = "sentinel")]
    #[test]
    fn the_environment_names_a_master_that_sentinels_watch() {
        let urls = ("REDLOCK_URLS", "redis://a:26379,redis://b:26379");
        let built = builder(&[urls, ("REDLOCK_SENTINEL", " mymaster ")]).unwrap();
        assert!(built.contains("nodes: 1"), "{built}");
        let built = builder(&[urls, ("REDLOCK_SENTINEL", " ")]).unwrap();
        assert!(built.contains("nodes: 2"), "blank is none: {built}");
        let login = ("REDLOCK_SENTINEL", "http://:secret@mymaster");
        let text = builder(&[urls, login]).unwrap_err().to_string();
        assert!(text.contains("REDLOCK_SENTINEL") && !text.contains("secret"), "{text}");
        let text = builder(&[("REDLOCK_SENTINEL", "mymaster")]).unwrap_err().to_string();
        assert!(text.contains("no server is named"), "{text}");
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn the_environment_names_a_cluster() {
        let urls = ("REDLOCK_URLS", "redis://a,redis://b");
        for (value, nodes) in [("1", 1), ("true", 1), (" Yes", 1), ("0", 2), ("Off ", 2), ("", 2)] {
            let built = builder(&[urls, ("REDLOCK_CLUSTER", value)]).unwrap();
            assert!(built.contains(&format!("nodes: {nodes}")), "{value:?}: {built}");
        }
    }

    #[cfg(all(feature = "sentinel", feature = "cluster"))]
    #[test]
    fn a_cluster_has_no_sentinels() {
        let both =
            [("REDLOCK_SENTINEL", "m"), ("REDLOCK_CLUSTER", "1"), ("REDIS_URL", "redis://a")];
        let text = builder(&both).unwrap_err().to_string();
        assert!(text.contains("REDLOCK_SENTINEL and REDLOCK_CLUSTER"), "{text}");
        assert!(builder(&[both[0], ("REDLOCK_CLUSTER", "0"), both[2]]).is_ok());
    }

    #[cfg(not(any(feature = "sentinel", feature = "cluster")))]
    #[test]
    fn a_topology_without_its_feature_is_not_ignored() {
        for (name, feature) in [("REDLOCK_SENTINEL", "sentinel"), ("REDLOCK_CLUSTER", "cluster")] {
            let text = builder(&[("REDIS_URL", "redis://a"), (name, "1")]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(&format!("[\"{feature}\"]")), "{text}");
        }
    }

    /// Each of them where another check would fail without it: that check would name what is set.
    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_no_text_is_named_and_not_shown() {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt;

        let garbled = OsString::from_vec(b"redis://:secret\xff@a".to_vec());
        for (name, others) in [
            ("REDIS_URL", &[][..]),
            ("REDLOCK_URLS", &[]),
            ("REDLOCK_URLS", &[("REDIS_URL", "redis://a#insecure")]),
            ("REDLOCK_TLS_CERT", &[("REDIS_URL", "rediss://a"), ("REDLOCK_TLS_KEY", "/key")]),
            ("REDLOCK_TLS_KEY", &[("REDIS_URL", "rediss://a"), ("REDLOCK_TLS_CERT", "/cert")]),
            ("REDLOCK_PREFIX", &[("REDIS_URL", "redis://a")]),
        ] {
            let find = |wanted: &str| {
                if wanted == name {
                    return Err(VarError::NotUnicode(garbled.clone()));
                }
                let known = others.iter().find(|(known, _)| *known == wanted);
                known.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
            };
            let text = from_readable(find).unwrap_err().to_string();
            assert!(text.contains(&format!("{name} is not valid UTF-8")), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn an_empty_environment_says_what_to_set() {
        let error = builder(&[("REDIS_URL", " ")]).unwrap_err();
        assert!(error.to_string().contains("REDIS_URL"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn the_environment_names_files_for_tls() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let url = ("REDIS_URL", "rediss://a");
        for (variables, shown) in [
            (&[url, ("REDLOCK_TLS_CA", " ")][..], "tls: None"),
            (&[url, ("REDLOCK_TLS_CA", file)], "has_ca: true, has_client_cert: false"),
            (
                &[url, ("REDLOCK_TLS_CERT", file), ("REDLOCK_TLS_KEY", file)],
                "has_ca: false, has_client_cert: true",
            ),
        ] {
            let builder = builder(variables).unwrap();
            assert!(builder.contains(shown), "{builder}");
        }
        let missing = builder(&[url, ("REDLOCK_TLS_CA", "/nowhere/ca.crt")]).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/ca.crt cannot be read"), "{missing}");
        for half in ["REDLOCK_TLS_CERT", "REDLOCK_TLS_KEY"] {
            let error = builder(&[url, (half, file)]).unwrap_err();
            assert!(error.to_string().contains("set both or none"), "{error}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn an_environment_that_asks_for_tls_is_not_ignored() {
        for name in ["REDLOCK_TLS_CA", "REDLOCK_TLS_CERT", "REDLOCK_TLS_KEY"] {
            let error = builder(&[("REDIS_URL", "redis://a"), (name, "/ca.crt")]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("features = [\"tls\"]"), "{text}");
        }
    }
}
