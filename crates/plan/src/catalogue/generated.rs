//! Twenty-six generated sites with the numbers of a published survey of radio astronomy sites (AENEAS deliverable 4.2). The sites are not real:
//! only their counts and bounds are those of the survey.

use std::collections::BTreeMap;

use super::questionnaire::{Answer, SiteRecord};

const SITES: usize = 26;
const DISK_LEAST_PB: f64 = 0.2;
const DISK_MOST_PB: f64 = 29.5;

/// The records. The same each time.
pub fn generated_sites() -> Vec<SiteRecord> {
    (0..SITES).map(record).collect()
}

/// Whether a site has a property that `count` of the 26 sites have. The step, which shares no factor with 26, scatters them.
fn has(site: usize, count: usize, step: usize) -> bool {
    (site * step + count) % SITES < count
}

fn record(site: usize) -> SiteRecord {
    let mut answers = BTreeMap::new();
    let mut answer = |name: &str, value: Answer| drop(answers.insert(name.to_owned(), value));
    // A geometric scale from the least to the most.
    let disk = DISK_LEAST_PB * (DISK_MOST_PB / DISK_LEAST_PB).powf(site as f64 / (SITES - 1) as f64);
    let raid = match site {
        0..6 => "raid6",
        6..9 => "raid5",
        9..18 => "erasure coding",
        _ => "replication",
    };
    // Two thirds of 26 write faster than 10 Gbit/s.
    let write = if has(site, 17, 7) { 16.0 } else { 8.0 };
    let link = match (has(site, 8, 5), has(site, 22, 5)) {
        (true, _) => 100.0,
        (false, true) => 10.0,
        (false, false) => 1.0,
    };
    let dtn = has(site, 16, 9);
    answer("contact", Answer::Text(format!("generated site {}", site + 1)));
    answer("disk_pb", Answer::Number(disk));
    answer("raid", Answer::Text(raid.to_owned()));
    answer("disk_write_gbit_s", Answer::Number(write));
    answer("link_gbit_s", Answer::Number(link));
    answer("link_can_100g", Answer::YesNo(has(site, 17, 5)));
    answer("link_adequate_until", Answer::Number(2018.0 + (site % 5) as f64));
    answer("dtn", Answer::YesNo(dtn));
    answer("dtn_count", Answer::Number(if dtn { 2.0 } else { 0.0 }));
    answer("dmz", Answer::YesNo(has(site, 13, 11)));
    answer("firewall", Answer::YesNo(true));
    answer("internal_gbit_s", Answer::Number(if site.is_multiple_of(2) { 40.0 } else { 56.0 }));
    answer("growth_factor", Answer::Number(2.0));
    SiteRecord { site: format!("site-{:02}", site + 1), answers }
}

#[cfg(test)]
mod tests {
    use super::super::{Measured, Severity, statistics, validate};
    use super::*;

    /// Each number of the survey.
    #[test]
    fn the_generated_sites_reproduce_every_number_of_the_survey() {
        let all = statistics(&generated_sites());
        assert_eq!(all.sites, 26);
        let (least, most) = all.disk_pb.unwrap();
        assert!((least - 0.2).abs() < 1e-9 && (most - 29.5).abs() < 1e-9, "0.2 to 29.5 PB");
        assert_eq!((all.raid["raid6"], all.raid["raid5"]), (6, 3));
        let share = |count: usize| (count as f64 / 26.0 * 100.0).round();
        assert_eq!(share(all.writes_beyond_10g), 65.0, "two thirds write faster than 10 Gbit/s");
        assert!(all.link_10g > 13, "most have at least 10 Gbit/s");
        assert_eq!(share(all.link_100g), 31.0, "30 % have 100 Gbit/s");
        assert_eq!((all.can_100g, share(all.can_100g)), (17, 65.0), "17 sites, 66 %");
        assert_eq!(share(all.dtn), 62.0, "60 % have or plan a data transfer node");
        assert_eq!(share(all.dmz), 50.0);
        assert_eq!(all.firewall, 26);
        assert_eq!(all.adequate_by, Some(2022));
        assert_eq!(all.growth_factor, Some(2.0));
    }

    #[test]
    fn the_generated_records_are_complete() {
        for record in generated_sites() {
            let errors = validate(&record, Measured::default()).into_iter().filter(|f| f.severity == Severity::Error);
            assert_eq!(errors.count(), 0, "{record:?}");
        }
    }
}
