//! Invented answers, and the answers of this kernel.

use super::*;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Reports a skipped test on stderr, past the harness, which hides the output of tests that pass.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

#[test]
fn names_and_counters_are_read() {
    let mut strings = bytes(&[GSTRINGS, SS_STATS, 2]);
    strings.extend(format!("{:\0<32}{:\0<32}", "rx_packets", "a".repeat(32)).bytes());
    assert_eq!(names(&strings).unwrap(), ["rx_packets".to_owned(), "a".repeat(32)]);
    strings.truncate(strings.len() - 1);
    assert!(names(&strings).is_err(), "cut");
    let absurd = bytes(&[GSTRINGS, SS_STATS, u32::MAX]);
    assert!(names(&absurd).is_err(), "more names than bytes");
    let mut stats = bytes(&[GSTATS, 1]);
    stats.extend(7u64.to_ne_bytes());
    assert_eq!(counters(&stats).unwrap(), [7]);
    assert!(counters(&bytes(&[GSTATS, u32::MAX])).is_err());
    assert!(counters(&[]).is_err());
}

#[test]
fn features_are_read() {
    // Available, requested, active, never changed. Bit 0 on, bit 1 off, bit 2 always on, bit 3 never.
    let answer = bytes(&[GFEATURES, 1, 0b0111, 0b0001, 0b0101, 0b0100]);
    let feature_at = |at: usize| feature(&answer, at).unwrap();
    assert_eq!(feature_at(0), Feature { on: true, fixed: false });
    assert_eq!(feature_at(1), Feature { on: false, fixed: false });
    assert_eq!(feature_at(2), Feature { on: true, fixed: true });
    assert_eq!(feature_at(3), Feature { on: false, fixed: true });
    assert!(feature(&answer, 32).is_err(), "a block that does not exist");
    assert!(feature(&bytes(&[GFEATURES, 9]), 100).is_err(), "a block that is counted and missing");
}

#[test]
fn links_and_drivers_are_read() {
    let mut answer = bytes(&[GLINKSETTINGS, 100_000, 0, 0]);
    (answer[8], answer[11]) = (1, 1);
    assert_eq!(link(&answer).unwrap(), Link { speed_mbit_s: Some(100_000), full_duplex: Some(true), negotiated: true });
    answer[4..8].fill(0xff);
    answer[8] = 0xff;
    assert_eq!(link(&answer).unwrap(), Link { speed_mbit_s: None, full_duplex: None, negotiated: true });
    assert!(link(&answer[..8]).is_err());
    let mut info = bytes(&[GDRVINFO]);
    info.extend(format!("{:\0<32}{:\0<32}{:\0<32}{:\0<32}", "mlx5_core", "6.18", "28.39", "0000:3b:00.0").bytes());
    let known = driver(&info).unwrap();
    assert_eq!((known.name.as_str(), known.version.as_str()), ("mlx5_core", "6.18"));
    assert_eq!((known.firmware.as_str(), known.bus.as_str()), ("28.39", "0000:3b:00.0"));
    assert!(driver(&info[..120]).is_err());
}

#[test]
fn tables_and_masks_are_read() {
    assert_eq!(indirection_table(&bytes(&[GRXFHINDIR, 3, 0, 1, 2])).unwrap(), [0, 1, 2]);
    assert!(indirection_table(&bytes(&[GRXFHINDIR, 4, 0, 1, 2])).is_err());
    assert!(indirection_table(&bytes(&[GRXFHINDIR, u32::MAX])).is_err());
    assert_eq!(words(0b1001, &["a", "b", "c"]), ["a"], "a bit without a name");
}

#[test]
fn the_light_of_modules_is_read() {
    let mut sfp = vec![0u8; 512];
    sfp[256 + 104..256 + 106].copy_from_slice(&5_000u16.to_be_bytes());
    assert_eq!(light_mw(2, &sfp), None, "it does not measure");
    sfp[92] = 0x60;
    assert_eq!(light_mw(2, &sfp), Some(vec![0.5]));
    assert_eq!(light_mw(2, &sfp[..256]), None, "half of it");
    let mut qsfp = vec![0u8; 256];
    assert_eq!(light_mw(3, &qsfp), None, "a cable of copper");
    for lane in 0..4 {
        qsfp[34 + 2 * lane..36 + 2 * lane].copy_from_slice(&10_000u16.to_be_bytes());
    }
    assert_eq!(light_mw(3, &qsfp), Some(vec![1.0; 4]));
    assert_eq!(light_mw(77, &qsfp), None, "an unknown memory map");
}

#[test]
fn invalid_interface_names_are_refused() {
    for name in ["", "a/b", "a\0b", "sixteen-or-more-bytes"] {
        assert_eq!(Nic::new(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
    }
    let nobody = Nic::new("no-such-nic").unwrap();
    assert!(is_absent(&nobody.driver().unwrap_err()));
}

#[test]
fn the_features_of_this_kernels_loopback_are_read() {
    let lo = Nic::new("lo").unwrap();
    let features = match lo.features() {
        Ok(features) => features,
        Err(error) => {
            return skipped(
                "the_features_of_this_kernels_loopback_are_read",
                &format!("ethtool is not answered: {error}"),
            );
        }
    };
    let feature_of = |name: &str| features.iter().find(|(known, _)| known == name).map(|(_, feature)| *feature);
    assert_eq!(feature_of("loopback"), Some(Feature { on: true, fixed: true }));
    assert_eq!(feature_of("rx-gro").map(|feature| feature.fixed), Some(false), "GRO is software's, and may be changed");
    assert!(is_absent(&lo.number(Number::RingRx).unwrap_err()), "it has no rings");
    assert!(is_absent(&lo.indirection_table().unwrap_err()) && is_absent(&lo.light_mw().unwrap_err()));
}

#[test]
fn a_feature_and_a_number_of_a_device_are_changed() {
    // The thread stays in its new network for the rest of its life.
    let tried = std::thread::spawn(|| {
        let why = |what: &str, error: io::Error| format!("{what}: {error}");
        let _home = crate::namespace::Namespaces::make().map_err(|e| why("no namespaces, which takes root", e))?;
        let _device = crate::tun::open("tun7").map_err(|e| why("no TUN device", e))?;
        let nic = Nic::new("tun7").map_err(|e| why("no socket", e))?;
        let driver = nic.driver().unwrap();
        assert_eq!((driver.name.as_str(), driver.version.as_str()), ("tun", "1.6"));
        let gso = |nic: &Nic| nic.features().unwrap().into_iter().find(|(name, _)| name == "tx-generic-segmentation");
        let before = gso(&nic).unwrap().1;
        assert!(!before.fixed);
        nic.set_feature("tx-generic-segmentation", !before.on).unwrap();
        assert_eq!(gso(&nic).unwrap().1.on, !before.on);
        nic.set_feature("tx-generic-segmentation", before.on).unwrap();
        assert_eq!(gso(&nic).unwrap().1, before);
        assert!(nic.set_feature("loopback", true).is_err(), "the driver cannot change it");
        assert!(is_absent(&nic.set_feature("no-such-switch", true).unwrap_err()));
        // TUN has its packets per call in this number. One word is changed, its neighbours are not.
        let frames = nic.number(Number::CoalesceRxFrames).unwrap();
        nic.set_number(Number::CoalesceRxFrames, frames + 3).unwrap();
        assert_eq!(nic.number(Number::CoalesceRxFrames).unwrap(), frames + 3);
        assert_eq!(nic.number(Number::CoalesceRxUsecs).unwrap(), 0);
        assert!(nic.link().unwrap().speed_mbit_s.is_some());
        Ok(())
    });
    if let Err(why) = tried.join().unwrap() {
        let why: String = why;
        skipped("a_feature_and_a_number_of_a_device_are_changed", &why);
    }
}
