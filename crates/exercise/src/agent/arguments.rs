//! The arguments of each tool. Every value was checked before: addresses by `addresses`, options by `checked_order`.
//!
//! What this module does not know: programs and processes. It makes lists of words, which no shell reads.

use auth::Fingerprint;

use super::words::ToolRunDirection;

/// The options of a run, checked: a tool gets only options that it has.
#[derive(Clone, Default)]
pub(super) struct ClientOptions {
    /// The bearer for the server.
    pub bearer: Option<String>,
    /// The public key that the server must have.
    pub fingerprint: Option<Fingerprint>,
    /// Streams of each process.
    pub streams: Option<u32>,
    /// Buffers of each socket, bytes.
    pub window_bytes: Option<u64>,
    /// The limit of each process, bit/s.
    pub limit_bit_s: Option<u64>,
    /// How long a test lasts, seconds.
    pub seconds: Option<u32>,
    /// The SciTag of the traffic.
    pub scitag: Option<u16>,
}

/// What one process does.
pub(super) struct ClientTask<'a> {
    /// The direction of the data.
    pub direction: ToolRunDirection,
    /// The files; more than one only for tools that copy several in a process.
    pub files: &'a [TaskFile],
    /// The size of the files, bytes.
    pub bytes: u64,
    /// The options of the run.
    pub options: &'a ClientOptions,
    /// The authorities that the operator of the agent trusts instead of those of the system: a PEM file.
    pub authorities: Option<&'a str>,
    /// The state directory for processes of `longhaul`.
    pub state: Option<&'a str>,
}

/// A file of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskFile {
    /// The URL or the server.
    pub remote: String,
    /// The absolute path of the local file, or of a link to `/dev/null`; `-` for stdout; `null:` for tools that have a word of their own
    /// for that.
    pub local: String,
}

impl ClientTask<'_> {
    /// The remote end of the first file.
    fn remote(&self) -> &str {
        self.files.first().map_or("", |file| &file.remote)
    }

    /// The local end of the first file.
    fn local(&self) -> &str {
        self.files.first().map_or("", |file| &file.local)
    }

    /// The local path as a URL. The path has no character that needs an escape.
    fn local_url(&self) -> String {
        format!("file://{}", self.local())
    }

    /// The source and the target, with this local end.
    fn in_order(&self, local: String) -> [String; 2] {
        let remote = self.remote().to_owned();
        match self.direction {
            ToolRunDirection::Get => [remote, local],
            ToolRunDirection::Put => [local, remote],
        }
    }

    /// The sources and the target of a tool that copies several files into a directory, with what `remote` makes of each URL.
    fn ends(&self, remote: impl Fn(&str) -> String) -> Vec<String> {
        let sources = self.files.iter().map(|file| remote(&file.remote));
        match (self.direction, self.files) {
            (ToolRunDirection::Put, _) => vec![self.local().to_owned(), remote(self.remote())],
            (ToolRunDirection::Get, [file]) => sources.chain([file.local.clone()]).collect(),
            (ToolRunDirection::Get, _) => {
                let directory = self.local().rsplit_once('/').map_or("", |(directory, _)| directory);
                sources.chain([directory.to_owned()]).collect()
            }
        }
    }

    /// The scheme of the remote URLs.
    fn scheme(&self) -> &str {
        self.remote().split_once("://").map_or("", |(scheme, _)| scheme)
    }
}

fn owned<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// An option with its value, as two words; nothing without a value.
fn add_option(arguments: &mut Vec<String>, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        arguments.extend([name.to_owned(), value.to_string()]);
    }
}

/// The pin of curl: the same hash as the fingerprint, in the other alphabet of base64 and with its padding.
fn pin(fingerprint: Fingerprint) -> String {
    let text = fingerprint.to_string();
    let hash = text.trim_start_matches("SHA256:").replace('-', "+").replace('_', "/");
    format!("sha256//{hash}=")
}

/// curl. Redirects are followed, since many storages send clients on to a server of data.
pub(super) fn curl(task: &ClientTask<'_>) -> Vec<String> {
    // `--disable` must be first: the user's configuration file could change everything.
    let mut arguments = owned(["--disable", "--silent", "--show-error", "--fail", "--location", "--globoff"]);
    // A server must not send the client on to clear text or to another protocol.
    let protocols = if task.scheme() == "https" { "=https" } else { "=http,https" };
    add_option(&mut arguments, "--proto", Some(protocols));
    add_option(&mut arguments, "--proto-redir", Some(protocols));
    if task.options.bearer.is_some() {
        add_option(&mut arguments, "--config", Some("-"));
    }
    if let Some(fingerprint) = task.options.fingerprint.filter(|_| task.scheme() == "https") {
        // The key is verified even though no authority is.
        arguments.push("--insecure".to_owned());
        add_option(&mut arguments, "--pinnedpubkey", Some(pin(fingerprint)));
    } else {
        add_option(&mut arguments, "--cacert", task.authorities);
    }
    add_option(&mut arguments, "--limit-rate", task.options.limit_bit_s.map(|bits| bits / 8));
    add_option(&mut arguments, "--header", task.options.scitag.map(|tag| format!("SciTag:{tag}")));
    // curl prints this after each file.
    let count = if task.direction == ToolRunDirection::Get { "size_download" } else { "size_upload" };
    add_option(&mut arguments, "--write-out", Some(format!("%{{{count}}}\\n")));
    for file in task.files {
        match task.direction {
            ToolRunDirection::Get => add_option(&mut arguments, "--output", Some(&file.local)),
            ToolRunDirection::Put => {
                add_option(&mut arguments, "--output", Some("/dev/null"));
                add_option(&mut arguments, "--upload-file", Some(&file.local));
            }
        }
        add_option(&mut arguments, "--url", Some(&file.remote));
    }
    arguments
}

/// The configuration that curl reads from standard input. The bearer has no character that needs an escape there.
pub(super) fn curl_configuration(bearer: &str) -> Vec<u8> {
    format!("header = \"Authorization: Bearer {bearer}\"\n").into_bytes()
}

/// xrdcp. Its SciTag is a word of the URL, which servers of root:// read. Several files go into the directory of the first one.
pub(super) fn xrdcp(task: &ClientTask<'_>) -> Vec<String> {
    let mut arguments = owned(["--nopbar", "--silent", "--force"]);
    if task.scheme() == "https" {
        arguments.push("--allow-http".to_owned());
    }
    add_option(&mut arguments, "--streams", task.options.streams);
    add_option(&mut arguments, "--xrate", task.options.limit_bit_s.map(|bits| bits / 8));
    let tag = task.options.scitag.filter(|_| matches!(task.scheme(), "root" | "roots"));
    arguments.extend(task.ends(|url| tag.map_or_else(|| url.to_owned(), |tag| format!("{url}?scitag.flow={tag}"))));
    arguments
}

/// gfal-copy. A local target is removed before, so `--force` is for puts alone.
pub(super) fn gfal_copy(task: &ClientTask<'_>) -> Vec<String> {
    let mut arguments = Vec::new();
    if task.direction == ToolRunDirection::Put {
        arguments.push("--force".to_owned());
    }
    add_option(&mut arguments, "--nbstreams", task.options.streams);
    add_option(&mut arguments, "--tcp-buffersize", task.options.window_bytes);
    arguments.extend(task.in_order(task.local_url()));
    arguments
}

/// globus-url-copy.
pub(super) fn globus_url_copy(task: &ClientTask<'_>) -> Vec<String> {
    let mut arguments = Vec::new();
    add_option(&mut arguments, "-p", task.options.streams);
    add_option(&mut arguments, "-tcp-bs", task.options.window_bytes);
    arguments.extend(task.in_order(task.local_url()));
    arguments
}

/// rsync. `--whole-file` and `--ignore-times`: the bytes are to be sent, whatever is at the target.
pub(super) fn rsync(task: &ClientTask<'_>) -> Vec<String> {
    let mut arguments = owned(["--whole-file", "--ignore-times"]);
    if let Some(bits) = task.options.limit_bit_s {
        arguments.push(format!("--bwlimit={}", bits / 8 / 1024));
    }
    if let Some(bytes) = task.options.window_bytes {
        arguments.push(format!("--sockopts=SO_SNDBUF={bytes},SO_RCVBUF={bytes}"));
    }
    arguments.extend(task.ends(str::to_owned));
    arguments
}

/// The client of iperf3. Its limit is for each stream.
pub(super) fn iperf3(task: &ClientTask<'_>) -> Vec<String> {
    let (host, port) = task.remote().rsplit_once(':').unwrap_or((task.remote(), "5201"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut arguments = owned(["--json", "--interval", "0", "--client", host, "--port", port]);
    if task.direction == ToolRunDirection::Get {
        arguments.push("--reverse".to_owned());
    }
    match task.options.seconds {
        Some(seconds) => add_option(&mut arguments, "--time", Some(seconds)),
        None => add_option(&mut arguments, "--bytes", Some(task.bytes)),
    }
    add_option(&mut arguments, "--parallel", task.options.streams);
    add_option(&mut arguments, "--window", task.options.window_bytes);
    let streams = u64::from(task.options.streams.unwrap_or(1));
    add_option(&mut arguments, "--bitrate", task.options.limit_bit_s.map(|bits| bits / streams));
    arguments
}

/// `longhaul cp`. A file that exists at the target is sent again.
pub(super) fn longhaul(task: &ClientTask<'_>) -> Vec<String> {
    let mut arguments = owned(["cp", "--json", "--sync", "none"]);
    add_option(&mut arguments, "--state", task.state);
    add_option(&mut arguments, "--cacert", task.authorities);
    add_option(&mut arguments, "--streams", task.options.streams);
    add_option(&mut arguments, "--limit", task.options.limit_bit_s.map(|bits| format!("{bits}bit/s")));
    arguments.extend(task.in_order(task.local().to_owned()));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use ToolRunDirection::{Get, Put};

    /// Options that every tool gets here, whether it has them or not: what it ignores is seen as well.
    fn all_options() -> ClientOptions {
        ClientOptions {
            bearer: Some("s3cret".into()),
            fingerprint: None,
            streams: Some(4),
            window_bytes: Some(8 << 20),
            limit_bit_s: Some(80_000_000),
            seconds: None,
            scitag: None,
        }
    }

    fn task<'a>(direction: ToolRunDirection, files: &'a [TaskFile], options: &'a ClientOptions) -> ClientTask<'a> {
        ClientTask { direction, files, bytes: 1 << 30, options, authorities: None, state: Some("/state") }
    }

    fn line(
        tool: fn(&ClientTask<'_>) -> Vec<String>,
        direction: ToolRunDirection,
        remote: &str,
        local: &str,
        options: &ClientOptions,
    ) -> String {
        let files = [TaskFile { remote: remote.into(), local: local.into() }];
        let arguments = tool(&task(direction, &files, options));
        assert!(arguments.iter().all(|word| !word.contains("s3cret") && !word.contains(' ') && !word.is_empty()));
        arguments.join(" ")
    }

    #[test]
    fn curl_gets_and_puts_files() {
        let plain = ClientOptions::default();
        let first = "--disable --silent --show-error --fail --location --globoff";
        assert_eq!(
            line(curl, Get, "https://h/f", "/srv/x/f", &plain),
            format!(
                "{first} --proto =https --proto-redir =https --write-out %{{size_download}}\\n --output /srv/x/f --url https://h/f"
            )
        );
        assert_eq!(
            line(curl, Get, "http://h/f", "/srv/x/.null-1", &all_options()),
            format!(
                "{first} --proto =http,https --proto-redir =http,https --config - --limit-rate 10000000 \
                 --write-out %{{size_download}}\\n --output /srv/x/.null-1 --url http://h/f"
            )
        );
        assert_eq!(
            line(curl, Put, "https://h/f", "/srv/x/f", &plain),
            format!(
                "{first} --proto =https --proto-redir =https --write-out %{{size_upload}}\\n --output /dev/null \
                 --upload-file /srv/x/f --url https://h/f"
            )
        );
        assert_eq!(curl_configuration("s3cret"), b"header = \"Authorization: Bearer s3cret\"\n");
    }

    #[test]
    fn curl_verifies_a_server_by_its_key_or_by_authorities() {
        let words = |fingerprint| {
            let options = ClientOptions { fingerprint, ..ClientOptions::default() };
            let files = [TaskFile { remote: "https://h/f".into(), local: "/srv/x/f".into() }];
            curl(&ClientTask { authorities: Some("/etc/ca.pem"), ..task(Get, &files, &options) }).join(" ")
        };
        let pinned = words(Some(Fingerprint([0xfb; 32])));
        let hash = "+/v7".repeat(10);
        assert!(pinned.contains(&format!("--insecure --pinnedpubkey sha256//{hash}+/s= ")), "{pinned}");
        assert!(!pinned.contains("--cacert"));
        let verified = words(None);
        assert!(verified.contains("--cacert /etc/ca.pem ") && !verified.contains("--insecure"), "{verified}");
    }

    #[test]
    fn xrdcp_gets_and_puts_files() {
        let plain = ClientOptions::default();
        assert_eq!(
            line(xrdcp, Get, "root://h//f", "/srv/x/f", &all_options()),
            "--nopbar --silent --force --streams 4 --xrate 10000000 root://h//f /srv/x/f"
        );
        assert_eq!(line(xrdcp, Get, "roots://h//f", "-", &plain), "--nopbar --silent --force roots://h//f -");
        assert_eq!(
            line(xrdcp, Put, "https://h/f", "/srv/x/f", &plain),
            "--nopbar --silent --force --allow-http /srv/x/f https://h/f"
        );
    }

    #[test]
    fn several_files_of_a_process_go_into_their_directory() {
        let file = |name: &str| TaskFile { remote: format!("root://h//d/{name}"), local: format!("/srv/x/{name}") };
        let (files, plain) = ([file("a"), file("b")], ClientOptions::default());
        let words = xrdcp(&task(Get, &files, &plain)).join(" ");
        assert_eq!(words, "--nopbar --silent --force root://h//d/a root://h//d/b /srv/x");
        let words = rsync(&task(Get, &files, &plain)).join(" ");
        assert_eq!(words, "--whole-file --ignore-times root://h//d/a root://h//d/b /srv/x");
        let words = curl(&task(Get, &files, &plain)).join(" ");
        assert!(
            words.ends_with("--output /srv/x/a --url root://h//d/a --output /srv/x/b --url root://h//d/b"),
            "{words}"
        );
    }

    #[test]
    fn curl_and_xrdcp_mark_their_traffic() {
        let marked = ClientOptions { scitag: Some(452), ..ClientOptions::default() };
        assert!(line(curl, Get, "https://h/f", "/srv/x/f", &marked).contains(" --header SciTag:452 "));
        assert!(line(xrdcp, Get, "root://h//f", "-", &marked).ends_with("root://h//f?scitag.flow=452 -"));
        assert!(line(xrdcp, Get, "https://h/f", "-", &marked).ends_with("https://h/f -"));
    }

    #[test]
    fn gfal_copy_never_replaces_a_local_target() {
        let plain = ClientOptions::default();
        assert_eq!(line(gfal_copy, Get, "https://h/f", "/srv/x/f", &plain), "https://h/f file:///srv/x/f");
        assert_eq!(
            line(gfal_copy, Get, "gsiftp://h/f", "/srv/x/f", &all_options()),
            "--nbstreams 4 --tcp-buffersize 8388608 gsiftp://h/f file:///srv/x/f"
        );
        assert_eq!(line(gfal_copy, Put, "davs://h/f", "/srv/x/f", &plain), "--force file:///srv/x/f davs://h/f");
    }

    #[test]
    fn globus_url_copy_and_rsync_copy_files() {
        let plain = ClientOptions::default();
        assert_eq!(
            line(globus_url_copy, Get, "gsiftp://h/f", "/srv/x/.null-1", &all_options()),
            "-p 4 -tcp-bs 8388608 gsiftp://h/f file:///srv/x/.null-1"
        );
        assert_eq!(line(globus_url_copy, Put, "gsiftp://h/f", "/srv/x/f", &plain), "file:///srv/x/f gsiftp://h/f");
        assert_eq!(
            line(rsync, Get, "rsync://h/m/f", "/srv/x/f", &all_options()),
            "--whole-file --ignore-times --bwlimit=9765 --sockopts=SO_SNDBUF=8388608,SO_RCVBUF=8388608 rsync://h/m/f /srv/x/f"
        );
        assert_eq!(
            line(rsync, Put, "rsync://h/m/f", "/srv/x/f", &plain),
            "--whole-file --ignore-times /srv/x/f rsync://h/m/f"
        );
    }

    #[test]
    fn iperf3_tests_by_bytes_or_by_time_and_limits_each_stream() {
        let timed = ClientOptions { seconds: Some(20), ..ClientOptions::default() };
        assert_eq!(
            line(iperf3, Put, "h:5201", "null:", &timed),
            "--json --interval 0 --client h --port 5201 --time 20"
        );
        assert_eq!(
            line(iperf3, Get, "[2001:db8::1]:5202", "null:", &all_options()),
            "--json --interval 0 --client 2001:db8::1 --port 5202 --reverse --bytes 1073741824 --parallel 4 --window 8388608 \
             --bitrate 20000000"
        );
    }

    #[test]
    fn longhaul_copies_to_memory_or_to_a_file() {
        let plain = ClientOptions::default();
        assert_eq!(
            line(longhaul, Get, "lh://h/e/f", "null:", &all_options()),
            "cp --json --sync none --state /state --streams 4 --limit 80000000bit/s lh://h/e/f null:"
        );
        assert_eq!(
            line(longhaul, Put, "lh://h/e/f", "/srv/x/f", &plain),
            "cp --json --sync none --state /state /srv/x/f lh://h/e/f"
        );
    }
}
