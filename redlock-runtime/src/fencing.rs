//! The fencing token: the number that lets a resource refuse a holder that came too late.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// A number that grows with every lock granted on a key, so that a database can refuse an old
/// holder. (Readers beside each other, who write nothing, may have the same one on N masters.)
///
/// A lease can end while its holder is frozen, and no client-side check can prevent the write that
/// such a holder sends when it wakes up. The resource can: it remembers the highest token it has
/// seen and refuses lower ones (Kleppmann, *How to do distributed locking*, 2016). The order
/// matters: **claim** the token first, then read, then write.
///
/// ```sql
/// -- 0. once; a row with NULL could never be claimed, as `NULL <= :token` is not true
/// ALTER TABLE stock ADD fence BIGINT NOT NULL DEFAULT 0;
/// -- 1. claim, before reading; 0 rows: a newer holder was here (or there is no such row), stop
/// UPDATE stock SET fence = :token WHERE id = :id AND fence <= :token;
/// -- 2. read
/// SELECT qty FROM stock WHERE id = :id;
/// -- 3. write under the claim; 0 rows: a newer holder came in between, roll back
/// UPDATE stock SET qty = :qty WHERE id = :id AND fence = :token;
/// ```
///
/// A check on the write alone does not stop a lost update: the newer holder may have *read* before
/// the old one wrote. Calls that re-enter a lock have the token of the outer call, and may claim
/// again: hence `<=`. The statements work one by one, and in one transaction that begins with the
/// claim. No row at the claim may also mean that the row does not exist. `MySQL` counts a
/// row that gets the value it had only where the connection asks for matched rows
/// (`CLIENT_FOUND_ROWS`, as sqlx does).
///
/// Tokens are `max(last + 1, server time in microseconds)`: strictly increasing for as long as the
/// server keeps its data **or** its clock, and always below 2^53, so that they survive JSON and
/// Lua numbers. They are not consecutive. (`docs/protocol.md` says what is kept, and that tokens
/// run ahead of the clock by 10 ms at most, which counts where all data is lost for a moment.)
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let first = redlock.lock("stock-42").acquire().await?;
/// let older = first.fencing_token();
/// first.release().await?;
/// let second = redlock.lock("stock-42").acquire().await?;
/// assert!(second.fencing_token() > older);
/// let column: i64 = older.into(); // for a BIGINT
/// # let _ = column;
/// # Ok(()) }
/// ```
///
/// A resource server reads one from a request, and compares:
///
/// ```
/// use redlock::FencingToken;
///
/// let highest: FencingToken = "1763802000000042".parse()?;
/// let claimed: FencingToken = "1763802000000041".parse()?;
/// assert!(claimed < highest, "refused");
/// # Ok::<(), redlock::InvalidFencingToken>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The first value that is not a token: 2^53, where a double stops counting in ones.
    pub(crate) const LIMIT: u64 = 1 << 53;

    /// A token that was stored or sent as a number; `None` when `value` is not below 2^53.
    ///
    /// ```
    /// use redlock::FencingToken;
    ///
    /// assert_eq!(FencingToken::new(42).map(u64::from), Some(42));
    /// assert_eq!(FencingToken::new(1 << 53), None);
    /// ```
    pub const fn new(value: u64) -> Option<Self> {
        if value < Self::LIMIT { Some(Self(value)) } else { None }
    }

    /// The next token.
    pub(crate) fn after(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<FencingToken> for u64 {
    fn from(value: FencingToken) -> Self {
        value.0
    }
}

impl From<FencingToken> for i64 {
    fn from(value: FencingToken) -> Self {
        value.0.cast_signed()
    }
}

impl FromStr for FencingToken {
    type Err = InvalidFencingToken;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The standard library reads a sign as well.
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let value = digits.and_then(|digits| digits.parse().ok());
        value.and_then(Self::new).ok_or(InvalidFencingToken(()))
    }
}

/// A text that is no [`FencingToken`].
///
/// ```
/// let error = "-1".parse::<redlock::FencingToken>().unwrap_err();
/// assert_eq!(error.to_string(), "a fencing token is a whole number from 0 to 9007199254740991");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFencingToken(());

impl fmt::Display for InvalidFencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fencing token is a whole number from 0 to {}", FencingToken::LIMIT - 1)
    }
}

impl Error for InvalidFencingToken {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_same_number_in_every_type() {
        let last = FencingToken::LIMIT - 1;
        let fencing_token = FencingToken::new(last).unwrap();
        assert_eq!(u64::from(fencing_token), last);
        assert_eq!(i64::from(fencing_token), 9_007_199_254_740_991);
        assert_eq!(fencing_token.to_string(), last.to_string());
        assert_eq!(last.to_string().parse(), Ok(fencing_token));
        assert_eq!(FencingToken::new(last + 1), None);
        for text in ["", "-1", "9007199254740992", "18446744073709551616", "1.0", " 1", "+5"] {
            assert_eq!(text.parse::<FencingToken>(), Err(InvalidFencingToken(())), "{text}");
        }
    }
}
