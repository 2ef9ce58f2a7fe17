//! An owner, of which only its text counts here.

use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    pub(crate) fn retained(&self) -> String {
        self.as_str().to_owned()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
