//! The global client: the one that functions with `#[redis_lock]` use.

use std::env::VarError;

use super::process;
use super::process::PerProcess;
use crate::backend::{Tls, check_url};
use crate::client::{IntoRedlock, Redlock, in_scope};
use crate::error::LockError;

static GLOBAL: PerProcess<Redlock> = PerProcess::new();

/// Makes the global client. Call it once, at startup, before the first locked function; and once
/// more in a child of a fork, which cannot use the client of its parent.
///
/// Takes a URL, a `deadpool_redis::Pool`, a [`builder`](Redlock::builder) or a client.
///
/// # Errors
/// [`LockError::AlreadyInitialized`] at the second call, [`LockError::Config`] for options that
/// cannot work, [`LockError::Unavailable`] when the server cannot be reached.
///
/// # Cancel safety
/// Dropping the future leaves no client behind.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// use redlock::{LockError, Redlock};
///
/// redlock::init(Redlock::builder().memory()).await?; // or "redis://127.0.0.1:6379", or a pool
///
/// let again = redlock::init("redis://127.0.0.1:6379").await;
/// assert_eq!(again.unwrap_err(), LockError::AlreadyInitialized);
/// # Ok(()) }
/// ```
pub async fn init(client: impl IntoRedlock) -> Result<Redlock, LockError> {
    process::ask();
    // The one of the process: a scope around this call changes nothing about it.
    if GLOBAL.last().is_some_and(|redlock| redlock.engine().check_process().is_ok()) {
        return Err(LockError::AlreadyInitialized);
    }
    let redlock = client.into_redlock().await?;
    redlock.install()?;
    Ok(redlock)
}

/// [`init`] from the environment: `REDLOCK_URLS` (comma-separated; a comma in a password is fine),
/// else `REDIS_URL` (one server); `REDLOCK_PREFIX`; and with the feature `tls` the paths of PEM
/// files: `REDLOCK_TLS_CA` for a private CA, `REDLOCK_TLS_CERT` and `REDLOCK_TLS_KEY` for a client
/// certificate.
///
/// # Errors
/// As [`init`]; [`LockError::Config`] when no server is named, or a file cannot be read.
///
/// # Cancel safety
/// Dropping the future leaves no client behind.
///
/// ```no_run
/// # async fn demo() -> Result<(), redlock::LockError> {
/// redlock::init_from_env().await?;
/// # Ok(()) }
/// ```
pub async fn init_from_env() -> Result<Redlock, LockError> {
    let builder = from_variables(|name| std::env::var(name).ok())?;
    // What cannot be read is no wish for a default: a client with another prefix excludes nobody.
    let is_unreadable = |name: &&str| matches!(std::env::var(name), Err(VarError::NotUnicode(_)));
    if let Some(name) = VARIABLES.into_iter().find(is_unreadable) {
        return Err(LockError::config(format!("{name} is not valid UTF-8")));
    }
    init(builder).await
}

const VARIABLES: [&str; 6] = [
    "REDLOCK_URLS",
    "REDIS_URL",
    "REDLOCK_PREFIX",
    "REDLOCK_TLS_CA",
    "REDLOCK_TLS_CERT",
    "REDLOCK_TLS_KEY",
];

fn from_variables(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<crate::client::RedlockBuilder, LockError> {
    let set = |name| variable(name).filter(|value| !value.trim().is_empty());
    let many = set("REDLOCK_URLS").map(|urls| ("REDLOCK_URLS", split(&urls)));
    let one = || set("REDIS_URL").map(|url| ("REDIS_URL", vec![url.trim().to_owned()]));
    let Some((name, urls)) = many.or_else(one) else {
        return Err(LockError::config(
            "no server is named; set REDIS_URL (or REDLOCK_URLS), for example to \
             redis://127.0.0.1:6379",
        ));
    };
    for (place, url) in (1..).zip(&urls) {
        // The error may show nothing of a URL that could hold a password.
        check_url(url).map_err(|error| match error {
            LockError::Config { message } => {
                LockError::config(format!("URL {place} of {} in {name}: {message}", urls.len()))
            }
            other => other,
        })?;
    }
    let builder = Redlock::builder().urls(urls).with_tls(Tls::from_variables(set)?);
    Ok(match variable("REDLOCK_PREFIX") {
        Some(prefix) => builder.prefix(prefix),
        None => builder,
    })
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

/// The global client; inside of a [`Redlock::scope`] the client of that scope.
///
/// # Errors
/// [`LockError::NotInitialized`] before [`init`] and outside of any scope,
/// [`LockError::ForkedProcess`] in a child of a fork before it has called [`init`] itself.
///
/// ```
/// assert_eq!(redlock::global().unwrap_err(), redlock::LockError::NotInitialized);
/// ```
pub fn global() -> Result<Redlock, LockError> {
    let redlock = of_call()?;
    redlock.engine().check_process()?;
    Ok(redlock)
}

/// The global client, for a call that checks by itself whether the client belongs to this process.
pub(crate) fn of_call() -> Result<Redlock, LockError> {
    in_scope().or_else(|| GLOBAL.last().cloned()).ok_or(LockError::NotInitialized)
}

impl Redlock {
    /// Makes this client the global one, which functions with `#[redis_lock]` use.
    ///
    /// # Errors
    /// [`LockError::AlreadyInitialized`] when there is one, [`LockError::ForkedProcess`] when this
    /// client belongs to the process from which this one was forked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().memory().build().await?;
    /// redlock.install()?;
    /// assert!(redlock::global().is_ok());
    /// # Ok(()) }
    /// ```
    pub fn install(&self) -> Result<(), LockError> {
        self.engine().check_process()?;
        GLOBAL.set(process::id(), self.clone())
    }
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
