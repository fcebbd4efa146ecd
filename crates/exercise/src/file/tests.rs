//! Files of exercises: what they mean, and what is refused with which line.

use super::*;

const SITES: &str = "[exercise]\ntitle = \"t\"\n[site.a]\nnode = \"https://a:1\"\n[site.b]\nnode = \"https://b:1\"\n[site.c]\nnode = \"https://c:1\"\n\
     [class.x]\nfiles = 2\nsize = \"1GB\"\n";

fn read(more: &str) -> Result<Exercise, FileProblem> {
    Exercise::read(&format!("{SITES}{more}"))
}

fn problem(more: &str) -> String {
    read(more).map(|exercise| panic!("{exercise:?}")).unwrap_or_else(|problem: FileProblem| problem.to_string())
}

#[test]
fn shipped_exercises_are_valid_and_their_goals_fit() {
    for exercise in &SHIPPED {
        let read = Exercise::read(exercise.text).unwrap_or_else(|problem| panic!("{}: {problem}", exercise.name));
        assert_eq!(crate::feasible::shortfalls(&read), [], "{}", exercise.name);
        assert!(shipped(exercise.name).is_some());
    }
    let flood = Exercise::read(shipped("flood").unwrap().text).unwrap();
    assert_eq!(flood.flows().count(), 200);
}

#[test]
fn a_matrix_is_a_flow_for_each_pair_of_different_sites() {
    let exercise = read("[[phase]]\nname = \"p\"\nlasts = \"1min\"\n[[phase.flow]]\nfrom = [\"a\", \"b\"]\nto = [\"b\", \"c\"]\nclass = \"x\"\n").unwrap();
    let names: Vec<&str> = exercise.flows().map(|(_, flow)| flow.name.as_str()).collect();
    assert_eq!(names, ["p: a > b, x", "p: a > c, x", "p: b > c, x"]);
    assert!(exercise.flows().all(|(_, flow)| flow.repeats), "a phase with a length is filled");
    assert_eq!(exercise.used_sites(), ["a", "b", "c"]);
}

#[test]
fn the_scale_holds_for_goals_caps_and_sizes_and_the_time_scale_for_times() {
    let text = SITES.replace("title", "scale = 0.01\ntime_scale = 0.5\nrate_max = \"10Gbit/s\"\ntitle")
        + "[link.l]\nbetween = [\"a\", \"b\"]\ncapacity = \"1Gbit/s\"\nrate_max = \"1Gbit/s\"\n\
           [[phase]]\nname = \"p\"\nlasts = \"60s\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\ngoal = \"1Gbit/s\"\nat = \"10s\"\n";
    let exercise = Exercise::read(&text).unwrap();
    let (phase, flow) = (&exercise.phases[0], &exercise.phases[0].flows[0]);
    assert_eq!((exercise.rate_max_bit_s, flow.goal_bit_s), (Some(1e8), Some(1e7)));
    assert_eq!((exercise.links[0].capacity_bit_s, exercise.links[0].rate_max_bit_s), (Some(1e9), Some(1e7)));
    assert_eq!((phase.lasts, flow.at), (Some(Duration::from_secs(30)), Duration::from_secs(5)));
    assert_eq!(flow.class.volume(exercise.scale), (2, 20_000_000));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line_and_a_remedy() {
    let phase = |flow: &str| format!("[[phase]]\nname = \"p\"\n[[phase.flow]]\n{flow}\n");
    let cases = [
        (phase("from = \"a\"\nto = \"z\"\nclass = \"x\""), "line 14: z is no site", "[site.z]"),
        (phase("from = \"a\"\nto = \"b\"\nclass = \"y\""), "line 14: y is no class", "[class.y]"),
        (phase("from = \"a\"\nto = \"a\"\nclass = \"x\""), "line 14: a flow from a site to itself", "another target"),
        (phase("from = \"a\"\nto = \"b\"\nclass = \"x\"\ngoal = \"fast\""), "line 18:", "rate"),
        (phase("from = \"a\"\nto = \"b\"\nclass = \"x\"\nrepeats = true"), "repeats for ever", "how long"),
        ("[class.z]\nfiles = 3\n".to_owned(), "line 12: the class z does not say", "size"),
        ("[class.z]\nset = \"ds99\"\n".to_owned(), "\"ds99\" is no data set", "ds01"),
        ("[class.z]\nsize = \"1GB\"\nclients = 8\n".to_owned(), "8 clients", "one job of Longhaul"),
        ("[class.z]\nsize = \"1GB\"\nspeed = 8\n".to_owned(), "unknown field `speed`", "docs/exercise.md"),
        ("[link.l]\nbetween = [\"a\", \"q\"]\n".to_owned(), "q, which is no site", "[site.q]"),
        (String::new(), "no flow and no search", "[[phase]]"),
        ("[site.d]\n".to_owned(), "the site d has no node", "https://HOST:PORT"),
        (
            "[[phase]]\nname = \"p\"\n[[phase.fault]]\nat = \"1s\"\nnode = \"a\"\n".to_owned(),
            "faults are injected in a lab only",
            "[lab]",
        ),
    ];
    for (text, what, remedy) in cases {
        let found = problem(&text);
        assert!(found.contains(what) && found.contains(remedy), "{text}\n{found}");
    }
}

#[test]
fn a_thousand_and_one_flows_are_too_many() {
    let found =
        problem("[[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\ncount = 1001\n");
    assert!(found.contains("1001 flows"), "{found}");
}

#[test]
fn a_fault_of_a_lab_has_the_words_of_the_lab() {
    let lab = "[lab]\nscenario = \"canberra-paris\"\n[[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\n\
         [[phase.fault]]\nat = \"3s\"\nfor = \"2s\"\npath = \"a-b\"\nset = { loss = \"1%\", down = true }\n";
    let exercise = read(lab).unwrap();
    assert_eq!(exercise.phases[0].faults[0].what.to_string(), "a-b: down=true loss=1%");
}

#[test]
fn a_search_has_six_slots_of_a_minute_unless_it_says_otherwise() {
    let search = "[search]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\n[search.parameter]\nstreams = [1, 2]\n";
    let found = read(search).unwrap().search.unwrap();
    assert_eq!((found.slots, found.slot), (6, Duration::from_secs(60)));
    assert!(problem(&search.replace("streams", "colour")).contains("cannot vary colour"));
}
