//! A call that takes several keys.

use std::borrow::Cow;

use super::{Stage, order};
use crate::body::reentrancy::lookup;
use crate::call::spec::Spec;
use crate::client::Redlock;
use crate::error::LockError;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::Policy;
use crate::{acquire, key};

impl Stage {
    #[cold]
    pub(super) fn begin_several(
        &mut self,
        spec: Spec,
        names: &[Cow<'static, str>],
        kind: Kind,
        redlock: &Redlock,
        policy: Policy,
    ) -> Result<(), LockError> {
        kind.check_several(policy.min_hold())?;
        let engine = redlock.engine();
        let (key, further) = key::in_order(redlock.prefix(), names)?;
        let names = std::iter::once(&key).chain(&further).map(LockKey::name);
        if let Some(held) = lookup::find_all(engine.id, names.clone())? {
            return self.begin_within(spec, held, kind, key.name(), engine, policy);
        }
        if spec.is_reentrant {
            lookup::check_not_ended(engine.id, names)?;
        }
        let order = order(engine, spec, key, kind, policy);
        *self = Self::Acquiring { spec, future: acquire::start_all(engine, order, further) };
        Ok(())
    }
}
