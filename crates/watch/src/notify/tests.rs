//! Recipients and the changes that are sent to them, over real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;

use model::v1::watch::{Acknowledgement, AlarmKind, CauseKind};

use super::*;

fn alarm(severity: Health) -> Alarm {
    Alarm {
        id: 3,
        from: "a".into(),
        to: "b".into(),
        kind: AlarmKind::Loss,
        direction: Some(model::v1::probe::Direction::Reverse),
        severity,
        since: "2026-11-01T10:00:00Z".into(),
        ended: None,
        evidence: "9 of 600 packets lost in reverse".into(),
        cause: CauseKind::RandomLoss,
        segment: "b out".into(),
        remedy: "clean its fibres".into(),
        event: Some("firewall update (12 min before)".into()),
        acknowledged: None,
    }
}

fn plain() -> Dialer {
    let tls = auth::client_certificate::http_client_config(Arc::new(rustls::RootCertStore::empty()), None).unwrap();
    dialer(tls)
}

/// Serves one request while `test` runs; returns its first line and its body.
fn one_request(test: impl FnOnce(String)) -> (String, Value) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let (mut socket, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(socket.try_clone().unwrap());
            let mut first = String::new();
            let mut length = 0;
            lines.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                lines.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            lines.read_exact(&mut body).unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            (first, serde_json::from_slice(&body).unwrap())
        });
        test(format!("http://{at}"));
        served.join().unwrap()
    })
}

fn notifier(toml: &str) -> Notifier {
    Notifier::new(&Config::parse(toml).unwrap(), plain())
}

#[test]
fn a_change_is_posted_to_a_webhook() {
    let (line, body) = one_request(|url| {
        let mut notifier = notifier(&format!("[[notify]]\nwebhook = \"{url}/hook\"\n"));
        notifier.push(&Change::Raised(alarm(Health::Warning)), 600);
        notifier.send(&[]);
    });
    assert!(line.starts_with("POST /hook "), "{line}");
    assert_eq!(
        (&body["changes"][0]["change"], &body["changes"][0]["alarm"]["segment"]),
        (&"raised".into(), &"b out".into())
    );
}

#[test]
fn an_alert_has_labels_and_an_end() {
    let (line, body) = one_request(|url| {
        let mut notifier = notifier(&format!("[[notify]]\nalertmanager = \"{url}\"\n"));
        let ended = Alarm { ended: Some("2026-11-01T11:00:00Z".into()), ..alarm(Health::Critical) };
        notifier.push(&Change::Ended(ended), 600);
        notifier.send(&[]);
    });
    assert!(line.starts_with("POST /api/v2/alerts "), "{line}");
    let labels = &body[0]["labels"];
    assert_eq!((&labels["alertname"], &labels["direction"]), (&"longhaul_loss".into(), &"reverse".into()));
    assert_eq!(body[0]["endsAt"], "2026-11-01T11:00:00Z");
}

#[test]
fn quiet_times_hold_back_all_but_critical_alarms() {
    let waiting = |notifier: &Notifier| notifier.recipients.iter().map(|it| it.waiting.len()).collect::<Vec<_>>();
    let toml = "quiet = [\"22:00-06:00\"]\n[[notify]]\nwebhook = \"http://127.0.0.1:1/\"\n\
                [[notify]]\nalertmanager = \"http://127.0.0.1:1/\"\n[[notify]]\nwebhook = \"http://127.0.0.1:1/\"\nseverity = \"critical\"\n";
    let mut notifier = notifier(toml);
    notifier.push(&Change::Raised(alarm(Health::Warning)), 23 * 60);
    assert_eq!(waiting(&notifier), [0, 1, 0]);
    notifier.push(&Change::Raised(alarm(Health::Critical)), 5 * 60);
    assert_eq!(waiting(&notifier), [1, 2, 1]);
    notifier.push(&Change::Raised(alarm(Health::Warning)), 12 * 60);
    let seen = Acknowledgement { by: "noc".into(), note: String::new() };
    notifier.push(&Change::Changed(Alarm { acknowledged: Some(seen), ..alarm(Health::Critical) }), 12 * 60);
    assert_eq!(waiting(&notifier), [2, 3, 1], "an acknowledged alarm is not sent again");
    notifier.send(&[]);
    assert_eq!(waiting(&notifier), [2, 3, 1], "no server listens: the changes wait");
}

#[test]
fn another_configuration_keeps_waiting_changes_of_its_recipients() {
    let to = |names: &[&str]| -> String {
        names.iter().map(|name| format!("[[notify]]\nwebhook = \"http://127.0.0.1:1/{name}\"\n")).collect()
    };
    let mut notifier = notifier(&to(&["a", "b"]));
    notifier.push(&Change::Raised(alarm(Health::Warning)), 600);
    notifier.replace(&Config::parse(&to(&["c", "b"])).unwrap());
    assert_eq!(notifier.recipients.iter().map(|it| it.waiting.len()).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_mail_is_sent_by_smtp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("smtp://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    let serving = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(socket.try_clone().unwrap());
        socket.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let mut is_data = false;
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
            let words = line.trim_end().to_owned();
            line.clear();
            let answer: &[u8] = match words.as_str() {
                "." => {
                    is_data = false;
                    b"250 queued\r\n"
                }
                _ if is_data => {
                    sender.send(words).unwrap();
                    continue;
                }
                "DATA" => {
                    is_data = true;
                    b"354 go on\r\n"
                }
                "QUIT" => b"221 bye\r\n",
                _ => b"250 ok\r\n",
            };
            socket.write_all(answer).unwrap();
        }
    });
    let change = Change::Raised(alarm(Health::Critical));
    mail::send(&server, "Watch <watch@example.org>", &["noc@example.org".into()], &[&change]).unwrap();
    serving.join().unwrap();
    let text: Vec<String> = received.iter().collect();
    let whole = text.join("\n");
    assert!(whole.contains("Subject: [longhaul] raised critical loss"), "{whole}");
    assert!(whole.contains("9 of 600 packets lost in reverse") && whole.contains("firewall update"), "{whole}");
    assert!(mail::send(&server, "nobody", &[], &[&change]).unwrap_err().contains("not a mail address"));
}

#[test]
fn a_quiet_time_may_span_midnight() {
    let night = [(22 * 60, 6 * 60)];
    assert!(
        is_within(&night, 23 * 60) && is_within(&night, 0) && !is_within(&night, 6 * 60) && !is_within(&night, 12 * 60)
    );
    assert_eq!(minute_of_day(1_790_000_000_000), (1_790_000_000 / 60 % 1_440) as u16);
}
