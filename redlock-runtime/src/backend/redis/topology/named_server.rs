//! Names the server in an error: a sentinel, or the master that the sentinels name.

use std::io;

use deadpool_redis::redis::{ConnectionAddr, ErrorKind, RedisError, make_extension_error};

use crate::backend::redis::connection::unasked::io_kind;
use crate::backend::tls;

/// The same error, with the address of the server that it is about. One of the client library about
/// what it has read stays as it is.
pub(crate) fn of_server(address: &ConnectionAddr, error: RedisError) -> RedisError {
    let with_address =
        || error.detail().map_or(address.to_string(), |detail| format!("{detail} ({address})"));
    match (error.kind(), error.code()) {
        _ if tls::is_failure(&error) => tls::of_server(address, error),
        (ErrorKind::Io, _) => {
            let kind = io_kind(&error).unwrap_or(io::ErrorKind::Other);
            io::Error::new(kind, format!("{error} ({address})")).into()
        }
        (kind @ ErrorKind::AuthenticationFailed, _) => {
            (kind, "Password authentication failed", with_address()).into()
        }
        (kind @ ErrorKind::Server(_), _) => (kind, "an error reply", with_address()).into(),
        (ErrorKind::Extension, Some(code)) => {
            make_extension_error(code.to_owned(), Some(with_address()))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::{Value, parse_redis_value};

    use super::*;
    use crate::backend::redis::connection::{Diagnosis, diagnose};
    use crate::error::NodeErrorKind;

    fn said(line: &str) -> RedisError {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(told)) => told.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_says_of_which_server_it_is_and_stays_what_it_was() {
        let address = ConnectionAddr::Tcp("10.0.0.5".to_owned(), 6380);
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (error, kind) in [
            (refused.into(), NodeErrorKind::Unreachable),
            (
                (ErrorKind::AuthenticationFailed, "Password authentication failed").into(),
                NodeErrorKind::Authentication,
            ),
            (said("NOPERM this user has no permissions"), NodeErrorKind::NoPermission),
            (said("NOAUTH Authentication required."), NodeErrorKind::Authentication),
            (said("LOADING Redis is loading"), NodeErrorKind::Loading),
            (said("ERR max number of clients reached"), NodeErrorKind::TooManyClients),
        ] {
            let before = diagnose("n", &error);
            let after = diagnose("n", &of_server(&address, error));
            assert!(after.error.message().contains("10.0.0.5:6380"), "{:?}", after.error);
            assert_eq!((before.error.kind(), after.error.kind()), (kind, kind));
            let known = |it: &Diagnosis| (it.has_run, it.is_final, it.discard);
            assert_eq!(known(&before), known(&after));
        }
    }

    /// As the client library tells what was wrong with a certificate.
    #[cfg(feature = "tls")]
    #[test]
    fn a_refused_certificate_says_of_which_server_it_is() {
        let address = ConnectionAddr::Tcp("10.0.0.5".to_owned(), 6380);
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let named = diagnose("n", &of_server(&address, io::Error::other(expired).into()));
        assert!(named.is_final && named.error.kind() == NodeErrorKind::Tls, "{named:?}");
        assert!(named.error.message().ends_with("Expired (10.0.0.5:6380)"), "{named:?}");
    }
}
