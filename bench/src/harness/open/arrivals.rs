//! Arrivals by chance (a Poisson process): the gaps between them are exponential.

/// The moments of `window` at which one of `rate` arrivals comes; in nanoseconds all of them.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn by_chance(seed: u64, rate: f64, window: f64) -> Vec<u64> {
    let mut chance = Chance(seed);
    let mut moments = Vec::new();
    let mut moment = 0.0;
    loop {
        moment += -(1.0 - chance.part()).ln() / rate;
        if moment >= window {
            return moments;
        }
        // 0 stands for what did not happen.
        moments.push((moment as u64).max(1));
    }
}

/// `SplitMix64`.
struct Chance(u64);

impl Chance {
    /// At least 0, less than 1.
    #[allow(clippy::cast_precision_loss)]
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_the_rate_and_are_the_same_for_the_same_seed() {
        let moments = by_chance(7, 1e-6, 1e10);
        assert!((9_700..10_300).contains(&moments.len()), "{} of 10,000", moments.len());
        assert!(moments.is_sorted());
        assert_eq!(moments, by_chance(7, 1e-6, 1e10));
        assert_ne!(moments, by_chance(8, 1e-6, 1e10));
    }

    #[test]
    fn gaps_are_exponential() {
        let moments = by_chance(1, 1e-6, 1e11);
        let long = moments.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
        // One gap in e is longer than the mean.
        assert!((35_500..38_000).contains(&long), "{long} of 100,000");
    }
}
