//! Who may hold one key at a time: readers beside readers, so many permits as their holders ask
//! for, and nobody beside a writer.

use super::{Hold, Violation};
use crate::log::Moment;

/// Each hold of one key, in the order in which they begin, against those that are on then.
pub(super) fn overlaps(key: &str, holds: &[&Hold], found: &mut Vec<Violation>) {
    let mut holds: Vec<&Hold> = holds.iter().copied().filter(|hold| hold.lasts()).collect();
    holds.sort_by_key(|hold| hold.since);
    let mut on: Vec<&Hold> = Vec::new();
    for hold in holds {
        on.retain(|before| before.end() > hold.since);
        let beside_it = on.iter().filter(|before| !before.kind.may_be_beside(hold.kind));
        if let Some(longest) = beside_it.max_by_key(|before| before.end()) {
            found.push(Violation::Overlap {
                key: key.to_owned(),
                holders: [longest.attempt.clone(), hold.attempt.clone()],
                by_us: (longest.end().min(hold.end()) - hold.since) / 1_000,
            });
        }
        on.push(hold);
        found.extend(crowd(key, hold.since, &on));
    }
}

/// Have more permits been given out than there are? Their holders came one after another, in an
/// order that logs do not tell, and each found room: the first as one of one, the next as one of
/// two. If no order is possible in which it did, somebody came in who had to wait.
fn crowd(key: &str, at: Moment, on: &[&Hold]) -> Option<Violation> {
    let mut permits: Vec<u32> = on.iter().filter_map(|hold| hold.kind.permits()).collect();
    permits.sort_unstable();
    let came = on.last()?.kind.permits();
    let had_room = came.is_none() || permits.iter().zip(1..).all(|(permits, nth)| nth <= *permits);
    (!had_room).then(|| Violation::Crowd {
        key: key.to_owned(),
        holders: on.iter().map(|hold| format!("{}{}", hold.attempt, hold.kind)).collect(),
        at,
    })
}
