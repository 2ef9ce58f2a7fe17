//! How a hold is shown to a person who debugs.

use std::fmt;

use super::Hold;

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("keys", &self.key_names())
            .field("owner", &self.claim.owner)
            .field("fencing_token", &self.fencing_token)
            .field("state", &self.state())
            .field("renewals", &self.renewals())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
