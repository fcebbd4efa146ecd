//! A RabbitMQ with its STOMP plug-in, in a directory of its own and on free ports, which ends with the test; and a small consumer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::wait::{LONG, until};

/// Debian's script beside it requires the system's own directories.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const USER: &str = "rabbitmq";

/// A running broker.
pub struct Broker {
    /// Erlang's own name server, then the broker.
    children: Vec<Child>,
    _dir: TempDir,
}

/// A port for a server that binds it seconds later: free now, and below the ephemeral ports, so that the kernel gives it to no other test
/// meanwhile.
pub fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).find(is_free).unwrap()
}

/// Whether a broker can be started; a test that needs it reports that it is skipped.
pub fn is_installed(test: &str) -> bool {
    let is_installed = Path::new(SERVER).exists();
    if !is_installed {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: RabbitMQ ({SERVER}) is not installed");
    }
    is_installed
}

/// A command that ends with the test, as a user that the broker accepts.
fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command
        .arg(program)
        .current_dir(dir)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

impl Broker {
    /// Starts a broker with STOMP on this port.
    pub fn start(port: u16) -> Broker {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (names, amqp, nodes) = (free_port().to_string(), free_port(), free_port().to_string());
        fs::write(
            at("rabbitmq.conf"),
            format!("listeners.tcp.1 = 127.0.0.1:{amqp}\nstomp.listeners.tcp.1 = 127.0.0.1:{port}\n"),
        )
        .unwrap();
        fs::write(at("plugins"), "[rabbitmq_stomp].\n").unwrap();
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            assert!(Command::new("chown").args(["-R", USER]).arg(dir.path()).status().unwrap().success());
        }
        let epmd = command("epmd", dir.path()).args(["-port", &names, "-address", "127.0.0.1"]).spawn().unwrap();
        let mut server = command(SERVER, dir.path());
        for (name, value) in [
            ("ERL_EPMD_PORT", names.as_str()),
            ("RABBITMQ_DIST_PORT", &nodes),
            ("RABBITMQ_NODENAME", &format!("t{port}@localhost")),
            ("RABBITMQ_CONF_ENV_FILE", "/dev/null"),
        ] {
            server.env(name, value);
        }
        for (name, file) in [
            ("RABBITMQ_MNESIA_BASE", "db"),
            ("RABBITMQ_LOG_BASE", "log"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_PID_FILE", "pid"),
        ] {
            server.env(name, at(file));
        }
        let broker = Broker { children: vec![epmd, server.spawn().unwrap()], _dir: dir };
        until("the broker listens", LONG, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        broker
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The server is a script: it passes a SIGTERM on, and could not pass on a SIGKILL.
        for child in self.children.iter_mut().rev() {
            crate::node::signal(child, Signal::TERM);
            let _ = child.wait();
        }
    }
}

/// A consumer of some destinations.
pub struct Consumer(BufReader<TcpStream>);

/// A message from the broker: its headers and its body.
#[derive(Debug)]
pub struct BrokerMessage {
    pub head: String,
    pub body: String,
}

impl Consumer {
    /// Subscribes; the name and password are the defaults of a broker.
    pub fn of(port: u16, destinations: &[&str]) -> Consumer {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut consumer = Consumer(BufReader::new(stream));
        consumer.send("CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0");
        assert!(consumer.receive().head.starts_with("CONNECTED"));
        for (id, destination) in destinations.iter().enumerate() {
            consumer.send(&format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\nack:auto\nreceipt:s{id}\n\n\0"));
            let receipt = consumer.receive();
            assert!(receipt.head.starts_with("RECEIPT"), "{receipt:?}");
        }
        consumer
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The next frame.
    pub fn receive(&mut self) -> BrokerMessage {
        let mut bytes = Vec::new();
        self.0.read_until(0, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.trim_start_matches('\n').split_once("\n\n").unwrap();
        BrokerMessage { head: head.to_owned(), body: body.trim_end_matches('\0').to_owned() }
    }
}
