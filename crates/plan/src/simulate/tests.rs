//! Simulations with results that can be computed by hand.

use super::*;

const TWO_SITES: &str = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"\nrate = \"10Gbit/s\"\n";
/// Payload starts after two round trips and slow start; far less than this at every rate here.
const STARTUP_S: f64 = 2.0;
/// The part of a link's rate that is payload, with packets of 9,000 bytes.
const PAYLOAD: f64 = (9000.0 - 72.0) / 9000.0 * 16_384.0 / 16_406.0;

fn run(text: &str) -> Outcome {
    let scenario = Scenario::read(text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    simulate(&scenario, None, &mut |_| true)
}

fn of<'a>(outcome: &'a Outcome, name: &str) -> &'a WorkOutcome {
    outcome.work.iter().find(|work| work.name == name).unwrap()
}

fn assert_near(actual: f64, wanted: f64, tolerance: f64) {
    assert!((actual - wanted).abs() <= tolerance, "{actual} and not {wanted}");
}

#[test]
fn a_terabyte_over_10_gbit_s_takes_800_seconds() {
    for step in ["0s", "10s"] {
        let outcome = run(&format!(
            "{TWO_SITES}[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\n[simulate]\nstep = \"{step}\"\n"
        ));
        let work = of(&outcome, "w");
        assert_eq!((work.files, work.done, work.failed), (1000, 1000, 0));
        assert!((800.0 / PAYLOAD..800.0 / PAYLOAD + STARTUP_S).contains(&work.last_s), "step {step}: {}", work.last_s);
        assert!(outcome.complete && !outcome.stopped);
    }
}

#[test]
fn the_hub_gives_activities_equal_shares_however_many_queues_they_have() {
    let outcome = run(&format!(
        "{TWO_SITES}[site.c]\n[path.a-c]\nrtt = \"100ms\"\n\
         [work.one]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\nactivity = \"x\"\n\
         [work.two]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\nactivity = \"y\"\n\
         [work.three]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\nactivity = \"y\"\n\
         [simulate]\nstep = \"0s\"\n"
    ));
    assert_near(of(&outcome, "one").last_s, 1600.0 / PAYLOAD, STARTUP_S);
    assert_near(of(&outcome, "three").last_s, 2400.0 / PAYLOAD, STARTUP_S);
}

#[test]
fn a_high_water_mark_leaves_the_rest_to_others() {
    let outcome = run(&format!(
        "{}mark = \"80%\"\n[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\n[simulate]\nstep = \"0s\"\n",
        TWO_SITES
    ));
    assert_near(of(&outcome, "w").last_s, 1000.0 / PAYLOAD, STARTUP_S);
    assert_near(outcome.resources[0].peak_bit_s, 8e9 * PAYLOAD, 1e3);
}

#[test]
fn a_deadline_gets_its_rate_before_others() {
    let outcome = run(&format!(
        "{TWO_SITES}[work.urgent]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\ndeadline = \"1000s\"\nactivity = \"x\"\npriority = 1\n\
         [work.bulk]\nfrom = \"a\"\nto = \"b\"\nbytes = \"9TB\"\nfile = \"1GB\"\nactivity = \"y\"\npriority = 5\n"
    ));
    let urgent = of(&outcome, "urgent");
    assert_eq!(urgent.late, 0, "the last came at {} s", urgent.last_s);
    assert!(urgent.last_s > 900.0, "it gets what it needs, and no more: {} s", urgent.last_s);
}

#[test]
fn a_cut_link_moves_the_transfer_to_another_route() {
    let text = "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\nrate = \"10Gbit/s\"\n\
                [path.a-c]\nrtt = \"50ms\"\nrate = \"5Gbit/s\"\n[path.c-b]\nrtt = \"50ms\"\nrate = \"5Gbit/s\"\n\
                [work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\n\
                [[event]]\nat = \"400s\"\npath = \"a-b\"\nset = { down = true }\n\
                [simulate]\nstep = \"0s\"\nreroute = \"30s\"\n";
    let outcome = run(text);
    // For 400 s files move at the full rate; nothing moves for 30 s; the rest moves at half the rate.
    let rest_s = 2.0 * (800.0 / PAYLOAD - 400.0);
    assert_near(of(&outcome, "w").last_s, 400.0 + 30.0 + rest_s, STARTUP_S);
    assert_eq!(of(&outcome, "w").done, 1000);
}

#[test]
fn a_repaired_link_is_used_again() {
    let text = format!(
        "{TWO_SITES}[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\n\
         [[event]]\nat = \"400s\"\npath = \"a-b\"\nset = {{ down = true }}\nfor = \"100s\"\n[simulate]\nstep = \"0s\"\nreroute = \"0s\"\n"
    );
    // After the outage the transfer starts once more.
    assert_near(of(&run(&text), "w").last_s, 800.0 / PAYLOAD + 100.0, 2.0 * STARTUP_S);
}

#[test]
fn one_telescope_fills_a_link_in_turn_and_two_need_twice_as_much() {
    let push = |order: &str, copies: u32| {
        let text = format!(
            "[site.low]\n[site.mid]\n[site.one]\n[site.two]\n[site.three]\n[site.four]\n[site.five]\n\
             [path.low-one]\n[path.low-two]\n[path.low-three]\n[path.low-four]\n[path.low-five]\n\
             [path.mid-one]\n[path.mid-two]\n[path.mid-three]\n[path.mid-four]\n[path.mid-five]\n\
             [work.w]\nfrom = [\"low\", \"mid\"]\nto = [\"one\", \"two\", \"three\", \"four\", \"five\"]\nbytes = \"2PB\"\nfile = \"10GB\"\n\
             order = \"{order}\"\ncopies = {copies}\n[simulate]\nduration = \"20d\"\n"
        );
        let text = text.replace("[site.low]", "[site.low]\nnodes = 1\nnode_rate = \"100Gbit/s\"");
        run(&text.replace("[site.mid]", "[site.mid]\nnodes = 1\nnode_rate = \"100Gbit/s\""))
    };
    let into_one = |outcome: &Outcome| {
        let into = outcome.resources.iter().filter(|resource| resource.name.ends_with("-one ab"));
        into.map(|resource| resource.peak_bit_s).sum::<f64>()
    };
    assert_near(into_one(&push("in-turn", 5)), 200e9, 1e9);
    assert_near(into_one(&push("parallel", 5)), 40e9, 1e9);
}

#[test]
fn a_relay_carries_each_file_over_the_ocean_once() {
    let carried = |relays: &str| {
        let outcome = run(&format!(
            "[site.perth]\n[site.london]\n[site.paris]\n[site.leiden]\n\
             [path.perth-london]\nrtt = \"200ms\"\nrate = \"100Gbit/s\"\n[path.london-paris]\nrtt = \"8ms\"\nrate = \"100Gbit/s\"\n\
             [path.london-leiden]\nrtt = \"8ms\"\nrate = \"100Gbit/s\"\n\
             [work.w]\nfrom = \"perth\"\nto = [\"london\", \"paris\", \"leiden\"]\ncopies = 3\nbytes = \"10TB\"\nfile = \"1GB\"\n{relays}"
        ));
        assert_eq!((of(&outcome, "w").files, of(&outcome, "w").done), (30_000, 30_000));
        let ocean = outcome.resources.iter().find(|resource| resource.name == "perth-london ab").unwrap();
        ocean.mean_bit_s * outcome.simulated_s / 8e12
    };
    assert_near(carried(""), 30.0, 0.01);
    assert_near(carried("relays = { london = [\"paris\", \"leiden\"] }\n"), 10.0, 0.01);
}

#[test]
fn without_a_scheduler_streams_decide() {
    let outcome = run(&format!(
        "{TWO_SITES}[work.modest]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1TB\"\nstreams = 1\n\
         [work.selfish]\nfrom = \"a\"\nto = \"b\"\nbytes = \"9TB\"\nfile = \"9TB\"\nstreams = 9\n\
         [simulate]\nscheduler = \"none\"\ncongestion = \"cubic\"\nstep = \"0s\"\n"
    ));
    assert_near(of(&outcome, "selfish").last_s, 8000.0 / PAYLOAD, 2.0 * STARTUP_S);
    assert_near(of(&outcome, "modest").last_s, 8000.0 / PAYLOAD, 2.0 * STARTUP_S);
}

#[test]
fn loss_limits_reno_to_its_law() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"\nrate = \"10Gbit/s\"\nloss = \"0.0046%\"\n\
                [work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"10GB\"\nfile = \"10GB\"\nstreams = 1\n\
                [simulate]\nscheduler = \"none\"\ncongestion = \"reno\"\n";
    let rate = model::laws::mathis_bit_s(8928.0, 0.1, 4.6e-5);
    assert_near(of(&run(text), "w").last_s, 80e9 / rate, STARTUP_S);
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let text = |seed: u64| {
        format!(
            "seed = {seed}\n{TWO_SITES}[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\nsizes = \"lognormal\"\nover = \"600s\"\nfailures = \"2%\"\n"
        )
    };
    let result = |seed: u64| {
        let outcome = run(&text(seed));
        let work = of(&outcome, "w");
        (work.last_s.to_bits(), work.failed, outcome.events, work.took_ms.value_at_quantile(0.99))
    };
    assert_eq!(result(1), result(1));
    assert_ne!(result(1), result(2));
}

#[test]
fn a_simulation_that_is_stopped_says_what_happened_until_then() {
    let scenario =
        Scenario::read(&format!("{TWO_SITES}[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\n"))
            .unwrap();
    let outcome = simulate(&scenario, None, &mut |progress| progress.now_s < 400.0);
    assert!(outcome.stopped && !outcome.complete);
    assert_near(outcome.simulated_s, 400.0, 1e-9);
    assert!((485..=496).contains(&outcome.work[0].done), "{}", outcome.work[0].done);
}

#[test]
fn work_without_a_route_stays_where_it_is() {
    let outcome = run(
        "[site.a]\n[site.b]\n[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\n[simulate]\nduration = \"1h\"\n",
    );
    assert_eq!((outcome.work[0].done, outcome.complete), (0, false));
    assert_eq!(outcome.course.last().unwrap().waiting, 1000);
}

/// Two routes from `a` to `b`, the shorter one with the traffic of others on it, and work that begins one hour before midnight.
fn two_routes(background: &str, choice: &str) -> Outcome {
    run(&format!(
        "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\nrate = \"10Gbit/s\"\n\
         [path.a-c]\nrtt = \"50ms\"\nrate = \"6Gbit/s\"\n[path.c-b]\nrtt = \"50ms\"\nrate = \"6Gbit/s\"\n\
         [background.others]\npath = \"a-b\"\n{background}\n\
         [work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"10TB\"\nfile = \"10GB\"\nat = \"23h\"\n\
         [simulate]\nduration = \"3d\"\nstep = \"0s\"\nchoice = \"{choice}\"\n"
    ))
}

fn hours_of(outcome: &Outcome) -> f64 {
    assert!(outcome.complete, "{:?}", outcome.ignored);
    of(outcome, "w").last_s / 3600.0 - 23.0
}

#[test]
fn traffic_of_others_leaves_the_rest() {
    // At night 2.5 times the mean of 2 Gbit/s, by day 0.4 times it, both with noise and growth.
    let hours = hours_of(&two_routes("shape = \"nightly\"\nmean = \"2Gbit/s\"", "shortest"));
    assert!((3.0..7.0).contains(&hours), "10 TB at 10 Gbit/s take 2.2 hours alone: {hours}");
}

#[test]
fn the_least_loaded_route_is_taken_whatever_comes() {
    let full_now = "shape = \"daily\"\nmean = \"12Gbit/s\"\nlater = \"6h\"";
    let hours = hours_of(&two_routes(full_now, "least-loaded"));
    assert!((3.6..4.2).contains(&hours), "10 TB at 6 Gbit/s take 3.7 hours: {hours}");
    assert!(hours_of(&two_routes(full_now, "shortest")) > 8.0);
}

#[test]
fn a_forecast_avoids_the_route_that_will_be_full() {
    let full_at_night = "shape = \"nightly\"\nmean = \"4Gbit/s\"";
    let by_load = hours_of(&two_routes(full_at_night, "least-loaded"));
    assert!(by_load > 6.0, "it is free before midnight, and nearly full until six: {by_load}");
    for method in ["seasonal-naive", "trees"] {
        let hours = hours_of(&two_routes(full_at_night, method));
        assert!((3.6..4.2).contains(&hours), "{method}: {hours}");
    }
}

#[test]
fn a_chosen_route_is_left_when_it_is_cut() {
    let cut = "shape = \"nightly\"\nmean = \"4Gbit/s\"\n[[event]]\nat = \"24h\"\npath = \"a-c\"\nset = { down = true }";
    let outcome = two_routes(cut, "trees");
    assert!(hours_of(&outcome) > 6.0, "the rest goes over the full route");
}

#[test]
fn a_path_that_is_withdrawn_loses_its_traffic_to_the_other_route_at_once() {
    let text = "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\nrate = \"10Gbit/s\"\n\
                [path.a-c]\nrtt = \"50ms\"\nrate = \"5Gbit/s\"\n[path.c-b]\nrtt = \"50ms\"\nrate = \"5Gbit/s\"\n\
                [work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1GB\"\n\
                [[event]]\nat = \"400s\"\npath = \"a-b\"\nset = { withdrawn = true }\n\
                [simulate]\nstep = \"0s\"\nreroute = \"600s\"\n";
    assert_near(of(&run(text), "w").last_s, 400.0 + 2.0 * (800.0 / PAYLOAD - 400.0), STARTUP_S);
}

/// What crossed a resource, bytes.
fn carried(outcome: &Outcome, name: &str) -> f64 {
    let resource = outcome.resources.iter().find(|resource| resource.name == name);
    resource.map_or(0.0, |resource| resource.mean_bit_s * outcome.simulated_s / 8.0)
}

#[test]
fn what_a_cache_has_does_not_cross_the_link() {
    let read = |cache: &str| {
        run(&format!(
            "{TWO_SITES}[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"200TB\"\nfile = \"1GB\"\nobjects = 10000\npopularity = 0.8\n{cache}\n\
             [simulate]\nduration = \"20d\"\n"
        ))
    };
    let (none, tenth) = (read(""), read("cache = \"1TB\""));
    assert_near(carried(&none, "a-b ab") / 200e12, 1.0, 1e-6);
    let requests =
        crate::cache::Requests { objects: 10_000, object_bytes: 1e9, exponent: 0.8, count: 200_000, seed: 0 };
    let hit_ratio = of(&tenth, "w").from_cache as f64 / 200_000.0;
    assert_near(hit_ratio, crate::cache::hit_ratio(&requests, 1e12), 0.02);
    assert_near(carried(&tenth, "a-b ab") / 200e12, 1.0 - hit_ratio, 1e-6);
    assert_eq!((of(&tenth, "w").done, tenth.complete), (200_000, true));
    assert!(of(&tenth, "w").last_s < of(&none, "w").last_s * (1.0 - hit_ratio) + 10.0);
}

/// Three sites in a ring; transfers of 1000 s at a wavelength's rate.
fn on_demand(wavelengths: u32, works: &[u32], more: &str) -> Outcome {
    let mut text = format!(
        "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\n[path.a-c]\nrtt = \"20ms\"\n[path.c-b]\nrtt = \"20ms\"\n{more}\
         [simulate]\nstep = \"0s\"\nwavelengths = {wavelengths}\nsetup = \"60s\"\nrestoration = \"5s\"\nwavelength_rate = \"100Gbit/s\"\n"
    );
    for (number, at) in works.iter().enumerate() {
        text += &format!(
            "[work.w{number}]\nfrom = \"a\"\nto = \"b\"\nbytes = \"12TB\"\nfile = \"1GB\"\nat = \"{at}s\"\non_demand = true\n"
        );
    }
    run(&text)
}

const TWELVE_TB_S: f64 = 960.0 / PAYLOAD;

#[test]
fn a_path_on_demand_has_light_after_its_setup_and_others_wait_for_it() {
    let outcome = on_demand(1, &[0, 0, 10], "");
    assert!(outcome.complete);
    // Two routes are there; the third transfer waits for the first to be released, and its path is set up then.
    let ends: Vec<f64> = outcome.work.iter().map(|work| work.last_s).collect();
    assert_near(ends[0], 60.0 + TWELVE_TB_S, STARTUP_S);
    assert_near(ends[1], 60.0 + TWELVE_TB_S, STARTUP_S);
    assert_near(ends[2], 2.0 * (60.0 + TWELVE_TB_S), 2.0 * STARTUP_S);
    assert_near(carried(&outcome, "light path 1"), 12e12, 1e6);
}

#[test]
fn a_cut_path_on_demand_is_restored_and_its_transfer_continues() {
    let cut = "[[event]]\nat = \"560s\"\npath = \"a-b\"\nset = { down = true }\n";
    let outcome = on_demand(1, &[0], cut);
    // The streams are heard when their timers end, 1.8 s after the path has light again.
    assert_near(of(&outcome, "w0").last_s, 60.0 + TWELVE_TB_S + 5.0, 2.0 * STARTUP_S);
    assert_eq!((of(&outcome, "w0").done, of(&outcome, "w0").failed), (12_000, 0), "nothing is sent twice");
    // Both routes are cut, 5 s after the first restoration: nothing moves until one of them is repaired, and restored 5 s later.
    let repaired =
        cut.to_owned() + "[[event]]\nat = \"570s\"\npath = \"a-c\"\nset = { down = true }\nfor = \"1000s\"\n";
    let outcome = on_demand(1, &[0], &repaired);
    // After the second outage of 1010 s the transfer opens its session again.
    assert_near(of(&outcome, "w0").last_s, 60.0 + TWELVE_TB_S + 1010.0, 3.0 * STARTUP_S);
}

#[test]
fn selfish_streams_win_from_others_until_the_hub_shares() {
    let finished = |settings: &str| {
        let works: String = (0..4)
            .map(|number| {
                let streams = if number == 0 { 32 } else { 4 };
                format!("[work.w{number}]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1TB\"\nfile = \"1TB\"\nstreams = {streams}\nactivity = \"{number}\"\n")
            })
            .collect();
        let outcome =
            run(&format!("{TWO_SITES}{works}[simulate]\nstep = \"0s\"\ncongestion = \"cubic\"\n{settings}\n"));
        [0, 1].map(|number: usize| outcome.work[number].last_s)
    };
    let (selfish, fair) = (finished("scheduler = \"none\""), finished("scheduler = \"hub\""));
    // 32 of 44 streams for the selfish one: 1 TB at 7.3 Gbit/s; all are done when 4 TB have moved.
    assert_near(selfish[0], 1100.0 / PAYLOAD, 2.0 * STARTUP_S);
    assert_near(selfish[1], 3200.0 / PAYLOAD, 2.0 * STARTUP_S);
    assert_near(fair[0], 3200.0 / PAYLOAD, 2.0 * STARTUP_S);
}
