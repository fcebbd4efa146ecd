//! One job fills a path by itself: streams where windows are small, a congestion control that tolerates loss, a path that is
//! known from last time, a path that two jobs share.

use std::fs;

use serde_json::Value;

use super::Labs;
use crate::client::words;
use crate::node::LONGHAUL;

/// 100 Mbit/s over 100 ms are 1.25 MB in flight; a stream of Canberra's, with its small buffer, carries a sixth of that.
const NARROW: &str = "[site.canberra]\nsysctl = { \"net.ipv4.tcp_wmem\" = \"4096 65536 524288\" }\n[site.paris]\n\
                      sysctl = { \"net.ipv4.tcp_wmem\" = \"4096 65536 524288\" }\n[path.canberra-paris]\n\
                      rtt = \"100ms\"\nrate = \"100Mbit/s\"\n";
const LOSSY: &str = "seed = 3\n[site.canberra]\n[site.paris]\n[path.canberra-paris]\nrtt = \"100ms\"\n\
                     rate = \"100Mbit/s\"\nloss = \"0.3%\"\n";

fn copy(labs: &Labs, words: &[&str]) -> Value {
    let words = words.iter().copied();
    let all = ["exec", "canberra", "--", LONGHAUL, "cp", "--json"].into_iter().chain(words).map(Into::into).collect();
    labs.run(all).expect(0).json()
}

fn streams(receipt: &Value) -> Vec<&Value> {
    receipt["streams"].as_array().unwrap().iter().filter(|stream| stream["id"] != 0).collect()
}

#[test]
fn small_buffers_get_more_streams_whichever_end_sends() {
    let Some(labs) = Labs::of("small_buffers_get_more_streams_whichever_end_sends") else { return };
    labs.run(words!["up", labs.file("narrow", NARROW)]).expect(0);
    let _node = labs.serve("paris", &[]);
    for (from, to) in [("zero:30MB", "lh://paris/null:"), ("lh://paris/zero:30MB", "null:")] {
        let few = copy(&labs, &["--streams", "3", from, to]);
        assert_eq!(streams(&few).len(), 3, "{few}");
        let grown = copy(&labs, &[from, to]);
        let is_faster = grown["seconds"].as_f64() < few["seconds"].as_f64();
        let grows = streams(&grown).len() > 3 && is_faster;
        assert!(grows || !labs.is_judged(), "{from}: {grown} has no more streams or is no faster than {few}");
    }
}

#[test]
fn a_path_with_loss_is_filled_and_known_the_next_time() {
    let Some(labs) = Labs::of("a_path_with_loss_is_filled_and_known_the_next_time") else { return };
    if !fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap().contains("bbr") {
        crate::wait::skipped("a_path_with_loss_is_filled_and_known_the_next_time", "this host has no bbr");
        return;
    }
    labs.run(words!["up", labs.file("lossy", LOSSY)]).expect(0);
    let _node = labs.serve("paris", &[]);
    let with_reno = copy(&labs, &["--streams", "1", "--congestion", "reno", "zero:5MB", "lh://paris/null:"]);
    let series = labs.client.path("series.csv");
    let series_text = series.to_str().unwrap();
    let with_bbr = copy(&labs, &["--series", series_text, "zero:40MB", "lh://paris/null:"]);
    let rate = |receipt: &Value| receipt["rate_bit_s"].as_f64().unwrap();
    assert!(rate(&with_bbr) > 2.0 * rate(&with_reno) || !labs.is_judged(), "{with_bbr} beside {with_reno}");
    assert!(streams(&with_bbr).iter().all(|stream| stream["congestion"] == "bbr"), "{with_bbr}");
    assert!(streams(&with_reno).iter().all(|stream| stream["congestion"] == "reno"), "{with_reno}");

    let rows = fs::read_to_string(&series).unwrap();
    let columns = rows.lines().next().unwrap().split(',').count();
    assert!(rows.lines().count() > 4 && rows.lines().all(|row| row.split(',').count() == columns), "{rows}");
    assert!(rows.contains(",far,"), "the other end's threads: {rows}");

    let kept: Vec<_> = fs::read_dir(labs.client.state().join("paths")).unwrap().collect();
    assert_eq!(kept.len(), 1, "one path");
    let known: Value = serde_json::from_slice(&fs::read(kept[0].as_ref().unwrap().path()).unwrap()).unwrap();
    let capacity = known["capacity_bit_s"].as_f64().unwrap();
    let is_right = capacity == 0.0 || (5e7..1.1e8).contains(&capacity);
    assert!(is_right || !labs.is_judged(), "{known}");
    assert!((0.09..0.12).contains(&known["min_rtt_s"].as_f64().unwrap()) || !labs.is_judged(), "{known}");
}
