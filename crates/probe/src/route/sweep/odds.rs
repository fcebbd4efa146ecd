//! The probability that chance alone causes so many losses on some of the flows. Pure.

/// ln n!: the exact sum below 32, Stirling's series above (where its error is below 1e-12).
fn ln_factorial(n: u64) -> f64 {
    let x = n as f64;
    match n {
        0..32 => (2..=n).map(|factor| (factor as f64).ln()).sum(),
        _ => {
            let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1_260.0 * x.powi(5));
            x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
        }
    }
}

fn ln_choose(n: u64, k: u64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// The number of ways to choose `k` of `n`.
pub fn choose(n: u64, k: u64) -> f64 {
    if k > n { 0.0 } else { ln_choose(n, k).exp() }
}

/// Fisher's exact test, one-sided: the probability that `lost` or more of the `all_lost` losses among `all_sent` probes fall
/// on `sent` of them, if all probes are lost with the same probability (the tail of the hypergeometric distribution).
pub fn chance(sent: u64, lost: u64, all_sent: u64, all_lost: u64) -> f64 {
    let most = sent.min(all_lost);
    if sent > all_sent || all_lost > all_sent || lost > most {
        return 0.0;
    }
    // The other probes can take only some of the losses; at least the rest falls on these.
    let least = (sent + all_lost).saturating_sub(all_sent);
    let whole = ln_choose(all_sent, sent);
    let one = |k: u64| (ln_choose(all_lost, k) + ln_choose(all_sent - all_lost, sent - k) - whole).exp();
    (lost.max(least)..=most).map(one).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_chance_is_that_of_fishers_table() {
        // Fisher's own table (1935): 3 or 4 of 4 cups right by chance are 17 of 70, all 4 are 1 of 70.
        assert!((chance(4, 3, 8, 4) - 17.0 / 70.0).abs() < 1e-12);
        assert!((chance(4, 4, 8, 4) - 1.0 / 70.0).abs() < 1e-12);
    }

    #[test]
    fn the_chance_of_extreme_counts_is_exact() {
        assert!((chance(10, 0, 100, 5) - 1.0).abs() < 1e-9, "none or more is certain");
        assert_eq!(chance(10, 6, 100, 5), 0.0, "more than there are");
        assert!((chance(100, 5, 100, 5) - 1.0).abs() < 1e-9, "all of them");
        assert!((chance(10, 10, 10, 10) - 1.0).abs() < 1e-9);
        assert!(chance(6_400, 640, 64_000, 640) < 1e-300, "and no overflow");
    }

    proptest! {
        /// Compared with the sum over all ways to draw, computed by products.
        #[test]
        fn the_chance_is_the_tail_of_the_distribution(all_sent in 1u64..60, sent in 0u64..60, all_lost in 0u64..60, lost in 0u64..60) {
            let sent = sent % (all_sent + 1);
            let all_lost = all_lost % (all_sent + 1);
            let choose = |n: u64, k: u64| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
            let ways = |k: u64| {
                if k <= all_lost && k <= sent && sent - k <= all_sent - all_lost {
                    choose(all_lost, k) * choose(all_sent - all_lost, sent - k)
                } else {
                    0.0
                }
            };
            let wanted = (lost..=all_sent).map(ways).sum::<f64>() / choose(all_sent, sent);
            prop_assert!((chance(sent, lost, all_sent, all_lost) - wanted).abs() < 1e-9);
        }
    }
}
