//! The search against drawn surfaces, and against the trials of SC11.

mod surfaces;

use proptest::prelude::*;

use super::*;
use surfaces::{Family, Surface, grid, large_grid};

/// The slots of a demonstration.
const SLOTS: usize = 6;
/// Drawn surfaces.
const SURFACES: u64 = 500;
/// The noise of a slot, as a part of its rate.
const NOISE: f64 = 0.02;

/// What a search knows beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    Nothing,
    PathAndProcessors,
    CapacityToo,
}

/// The sum of twelve draws has a standard deviation of 1, and is nearly normal.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

fn measured(surface: &Surface, setting: &Setting, random: &mut fastrand::Rng) -> SlotTrial {
    let rate_bit_s = surface.rate_bit_s(setting) * (1.0 + NOISE * normal(random));
    SlotTrial { rate_bit_s, error_bit_s: NOISE * rate_bit_s, failed: false }
}

fn highest(search: &SlotSearch, surface: &Surface) -> f64 {
    search.settings.iter().map(|setting| surface.rate_bit_s(setting)).fold(0.0, f64::max)
}

/// The part of the grid's best rate that the best of six slots has, without its noise.
fn reached(family: Family, parameters: &[Parameter], knowledge: Knowledge, seed: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let surface = Surface::draw(family, &mut random);
    let mut search = SlotSearch::new(parameters, SLOTS).unwrap();
    if knowledge != Knowledge::Nothing {
        search = search.with_hints(&surface.hints(knowledge == Knowledge::CapacityToo, &mut random));
    }
    while let Some(setting) = search.next() {
        let trial = measured(&surface, &setting, &mut random);
        search.record(setting, trial).unwrap();
    }
    assert_eq!(search.trials().len(), SLOTS);
    surface.rate_bit_s(search.best().unwrap().setting) / highest(&search, &surface)
}

/// Six settings drawn at random, for comparison.
fn reached_at_random(family: Family, parameters: &[Parameter], seed: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let surface = Surface::draw(family, &mut random);
    let search = SlotSearch::new(parameters, SLOTS).unwrap();
    let drawn = (0..SLOTS).map(|_| &search.settings[random.usize(0..search.settings())]);
    drawn.map(|setting| surface.rate_bit_s(setting)).fold(0.0, f64::max) / highest(&search, &surface)
}

/// The share of `surfaces` on which 95 % of the best rate of the grid is reached.
fn share(surfaces: u64, reached: impl Fn(u64) -> f64) -> f64 {
    (0..surfaces).filter(|seed| reached(*seed) >= 0.95).count() as f64 / surfaces as f64
}

#[track_caller]
fn assert_share(surfaces: u64, least: f64, family: Family, parameters: &[Parameter], knowledge: Knowledge) {
    let share = share(surfaces, |seed| reached(family, parameters, knowledge, seed));
    assert!(share >= least, "{share} of {surfaces} surfaces ({family:?}, {knowledge:?}), not {least}");
}

// The floors are below the shares of the module's table by twice the standard deviation of a share of so many surfaces. The sum of all
// tests must stay within seconds, so that most have fewer surfaces than the table.

#[test]
fn six_slots_reach_the_best_when_the_path_has_been_measured() {
    assert_share(SURFACES, 0.98, Family::Known, &grid(), Knowledge::CapacityToo);
}

#[test]
fn six_slots_reach_the_best_when_only_round_trip_and_processors_are_known() {
    assert_share(SURFACES / 4, 0.965, Family::Known, &grid(), Knowledge::PathAndProcessors);
}

#[test]
fn six_slots_reach_the_best_when_nothing_is_known() {
    assert_share(SURFACES / 2, 0.955, Family::Known, &grid(), Knowledge::Nothing);
}

#[test]
fn six_slots_mostly_reach_the_best_of_hosts_of_another_form() {
    assert_share(SURFACES / 4, 0.93, Family::Foreign, &grid(), Knowledge::CapacityToo);
}

#[test]
fn six_slots_reach_the_best_of_864_settings() {
    assert_share(SURFACES / 20, 0.9, Family::Known, &large_grid(), Knowledge::CapacityToo);
}

/// If six random settings were as good, the surfaces would be too easy to say anything.
#[test]
fn six_random_settings_do_not_reach_the_best() {
    for (family, most) in [(Family::Known, 0.65), (Family::Foreign, 0.45)] {
        let share = share(SURFACES, |seed| reached_at_random(family, &grid(), seed));
        assert!(share < most, "{family:?}: {share}");
    }
}

/// The trials of SC11: clients for each core, streams, window and files of each client; sustained Gbit/s.
#[test]
fn the_best_of_the_trials_of_sc11_is_their_last_setting() {
    let setting = |clients, window, files| {
        Setting::new([
            (ParameterName::Clients, clients),
            (ParameterName::Streams, 2),
            (ParameterName::Window, window),
            (ParameterName::Files, files),
        ])
    };
    let parameter = |name, values: &[u64]| Parameter { name, values: values.to_vec() };
    let parameters = [
        parameter(ParameterName::Clients, &[1, 2, 4]),
        parameter(ParameterName::Streams, &[2]),
        parameter(ParameterName::Window, &[0, 2_000_000]),
        parameter(ParameterName::Files, &[1, 60]),
    ];
    let trials = [
        (setting(1, 0, 60), 50e9),
        (setting(1, 2_000_000, 1), 52e9),
        (setting(1, 2_000_000, 1), 52e9),
        (setting(4, 2_000_000, 1), 70e9),
        (setting(4, 2_000_000, 1), 70e9),
    ];
    let mut search = SlotSearch::new(&parameters, SLOTS).unwrap();
    for (at, (setting, rate_bit_s)) in trials.iter().enumerate() {
        let trial = SlotTrial { rate_bit_s: *rate_bit_s, error_bit_s: 1e9, failed: false };
        search.record(setting.clone(), trial).unwrap();
        if at == 2 {
            let next = search.next().unwrap();
            assert_eq!(next.value(ParameterName::Clients), Some(4), "they took more clients as well: {next}");
        }
    }
    let best = search.best().unwrap();
    assert_eq!((best.setting, best.rate_bit_s), (&trials[4].0, 70e9));
    assert!((best.error_bit_s - 1e9 / 2f64.sqrt()).abs() < 1.0, "two trials have a smaller error");
    assert_eq!(search.trials().len(), 5);
}

#[test]
fn the_first_slot_is_what_bandwidth_delay_product_and_processors_say() {
    for (rtt_s, capacity_bit_s, processors) in [(0.1, 10e9, 16), (0.001, 10e9, 8), (0.3, 100e9, 64), (0.02, 1e9, 4)] {
        let hints =
            SearchHints { rtt_s: Some(rtt_s), capacity_bit_s: Some(capacity_bit_s), processors: Some(processors) };
        let first = SlotSearch::new(&grid(), SLOTS).unwrap().with_hints(&hints).next().unwrap();
        let value = |name| first.value(name).unwrap() as f64;
        let connections = value(ParameterName::Clients) * value(ParameterName::Streams);
        let bdp_bytes = model::laws::bdp_bytes(capacity_bit_s, rtt_s);
        let windows = connections * value(ParameterName::Window) / bdp_bytes;
        assert!(windows >= 1.0, "{rtt_s} s, {capacity_bit_s} bit/s: {first} do not fill the path");
        assert!(connections <= 2.0 * f64::from(processors), "{processors} processors: {first}");
    }
}

#[test]
fn what_asks_as_much_as_a_failed_setting_comes_last() {
    let parameter = |name, values: &[u64]| Parameter { name, values: values.to_vec() };
    let parameters = [parameter(ParameterName::Clients, &[1, 2, 4]), parameter(ParameterName::Streams, &[1, 2, 4])];
    let mut search = SlotSearch::new(&parameters, 9).unwrap();
    let setting =
        |clients, streams| Setting::new([(ParameterName::Clients, clients), (ParameterName::Streams, streams)]);
    let failed = SlotTrial { rate_bit_s: 0.0, error_bit_s: 0.0, failed: true };
    search.record(setting(2, 2), failed).unwrap();
    assert_eq!(search.best(), None);
    let asks_as_much = |setting: &Setting| {
        setting.value(ParameterName::Clients) >= Some(2) && setting.value(ParameterName::Streams) >= Some(2)
    };
    let mut order = Vec::new();
    while let Some(next) = search.next() {
        order.push(asks_as_much(&next));
        search.record(next, SlotTrial { rate_bit_s: 1e9, error_bit_s: 1e7, failed: false }).unwrap();
    }
    assert_eq!(order, [false, false, false, false, false, true, true, true]);
    assert_ne!(search.best().unwrap().setting, &setting(2, 2));
}

#[test]
fn a_setting_with_a_failed_trial_is_not_the_best() {
    let mut search = SlotSearch::new(&grid(), SLOTS).unwrap();
    let settings = [search.settings[3].clone(), search.settings[40].clone()];
    let trial = |rate_bit_s, failed| SlotTrial { rate_bit_s, error_bit_s: 1e7, failed };
    search.record(settings[0].clone(), trial(9e9, false)).unwrap();
    search.record(settings[0].clone(), trial(9e9, true)).unwrap();
    search.record(settings[1].clone(), trial(1e9, false)).unwrap();
    search.record(settings[1].clone(), trial(f64::NAN, false)).unwrap();
    assert_eq!(search.best(), None);
    search.record(search.settings[5].clone(), trial(1e6, false)).unwrap();
    assert_eq!(search.best().unwrap().rate_bit_s, 1e6);
}

#[test]
fn searches_without_sense_are_refused() {
    assert_eq!(SlotSearch::new(&grid(), 0).unwrap_err(), SearchError::NoSlots);
    let mut search = SlotSearch::new(&grid(), SLOTS).unwrap();
    let setting = Setting::new([(ParameterName::Clients, 1)]);
    let trial = SlotTrial { rate_bit_s: 1e9, error_bit_s: 1e7, failed: false };
    let error = search.record(setting.clone(), trial).unwrap_err();
    assert_eq!(error, SearchError::UnknownSetting { setting });
    assert_eq!(error.to_string(), "1 client is not a setting of this search");
    assert!(search.trials().is_empty());
}

#[test]
fn hints_may_come_after_trials() {
    let surface = Surface::draw(Family::Known, &mut fastrand::Rng::with_seed(5));
    let hints = surface.hints(true, &mut fastrand::Rng::with_seed(6));
    let proposals = |late: bool| {
        let mut search = SlotSearch::new(&grid(), SLOTS).unwrap();
        if !late {
            search = search.with_hints(&hints);
        }
        let setting = search.settings[20].clone();
        let trial = measured(&surface, &setting, &mut fastrand::Rng::with_seed(7));
        search.record(setting, trial).unwrap();
        if late {
            search = search.with_hints(&hints);
        }
        search.next()
    };
    assert_eq!(proposals(true), proposals(false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_setting_is_proposed_twice_and_the_same_trials_give_the_same_settings(
        clients in prop::collection::vec(1u64..40, 1..4),
        streams in prop::collection::vec(1u64..40, 1..4),
        slots in 1usize..12,
        rates in prop::collection::vec((1e3..1e12f64, 0.0..0.5f64, prop::bool::weighted(0.2)), 12),
    ) {
        let parameters = [
            Parameter { name: ParameterName::Clients, values: clients },
            Parameter { name: ParameterName::Streams, values: streams },
        ];
        let run = || {
            let mut search = SlotSearch::new(&parameters, slots).unwrap();
            for (rate_bit_s, error, failed) in &rates {
                let Some(setting) = search.next() else { break };
                let trial = SlotTrial { rate_bit_s: *rate_bit_s, error_bit_s: error * rate_bit_s, failed: *failed };
                search.record(setting, trial).unwrap();
            }
            search
        };
        let search = run();
        let mut tried: Vec<&Setting> = search.trials().iter().map(|tried| &tried.setting).collect();
        let other = run();
        prop_assert_eq!(search.trials(), other.trials());
        tried.sort();
        tried.dedup();
        prop_assert_eq!(tried.len(), search.trials().len());
        prop_assert_eq!(tried.len(), slots.min(search.settings()));
        prop_assert_eq!(search.next(), None);
        let counted = search.trials().iter().filter(|tried| !tried.trial.failed);
        let highest = counted.map(|tried| tried.trial.rate_bit_s).reduce(f64::max);
        prop_assert_eq!(search.best().map(|best| best.rate_bit_s), highest);
    }
}
