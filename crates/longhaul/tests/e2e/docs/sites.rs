//! The machines that each document mentions, and what it assumes on them.

use super::{Document, Machine};

const fn machine(name: &'static str, prepare: &'static str) -> Machine {
    Machine { name, addresses: &[], prepare }
}

/// A public file server of another organisation.
const PUBLIC: &str = "mkdir -p /srv/exp && tree /srv/exp/run7 && cp /srv/exp/run7/large /srv/exp/run7.tar
    longhaul serve --listen [::]:443 --export exp=/srv/exp --anonymous ro --certificate host.pem\n";
/// A node with one run, and the file `f`.
const WITH_DATA: &str = "mkdir -p /srv/data && echo the same everywhere > /srv/data/f
    longhaul grant --export data --write && longhaul serve --export data=/srv/data:rw\n";
/// A node that accepts files from others.
const WITH_INBOX: &str = "mkdir -p /srv/inbox && longhaul grant --export inbox --write
    longhaul serve --export inbox=/srv/inbox:rw\n";

pub(super) const README: Document = Document {
    file: "README.md",
    machines: &[
        machine(
            "here",
            "tree results && cp results/large run7.tar && longhaul cp -r results null: --receipt run7.json --series run7.csv",
        ),
        machine("node.example", "tree /srv/data/run7"),
        machine("other.example", WITH_INBOX),
        machine("a.example", WITH_DATA),
        machine("b.example", WITH_DATA),
        machine("dcache.example", PUBLIC),
    ],
    key_files: &[("nodes.keys", &["node.example.data", "other.example.inbox", "a.example.data", "b.example.data"])],
    copies_to: "node.example",
};

pub(super) const FIRST_DAY: Document = Document {
    file: "docs/first-day.md",
    machines: &[
        machine("here", "tree results && cp results/large run7.tar"),
        machine(
            "dtn.example.org",
            "mkdir -p /srv/data /srv/inbox && tree /srv/data/run7 && chown -R data:data /srv/data /srv/inbox
             nft add table inet filter && nft add chain inet filter input '{ type filter hook input priority 0; }'",
        ),
        machine("dtn.example.net", WITH_INBOX),
    ],
    key_files: &[("data.key", &["dtn.example.org.data"]), ("theirs.key", &["dtn.example.net.inbox"])],
    copies_to: "dtn.example.org",
};

pub(super) const USAGE: Document = Document {
    file: "docs/usage.md",
    machines: &[
        machine("node.example", WITH_DATA),
        machine(
            "a.example",
            "tree /srv/data/run7; echo the same > /srv/data/run7.tar; longhaul grant --export data --write
            longhaul serve --export data=/srv/data",
        ),
        machine(
            "b.example",
            "mkdir -p /srv/data; echo the same > /srv/data/run7.tar; longhaul grant --export data
            longhaul serve --export data=/srv/data",
        ),
        machine(
            "c.example",
            "mkdir -p /srv/run7; echo the same > /srv/run7/run7.tar
            longhaul serve --listen [::]:443 --export run7=/srv/run7 --anonymous ro --certificate host.pem",
        ),
        Machine {
            name: "dtn.example",
            addresses: &["192.0.2.17", "198.51.100.7"],
            prepare: "mkdir -p /srv/data && longhaul grant --export data --write",
        },
        machine("m1", ""),
        machine("m2", ""),
        machine(
            "dtn.example.org",
            "mkdir -p /srv/data && longhaul grant --export data --write
            longhaul serve --audit --export data=/srv/data",
        ),
        machine(
            "node.example.org",
            "mkdir -p /srv/data && longhaul grant --export data --write
            longhaul serve --audit --export data=/srv/data",
        ),
        machine("test.example.org", "longhaul serve --listen [::]:5201 --responders iperf3"),
        Machine {
            name: "reflector.example.org",
            addresses: &["192.0.2.7"],
            prepare: "longhaul serve --listen [::]:862 --responders stamp",
        },
        machine(
            "here",
            "tree run7; mkdir -p /srv/data; export LONGHAUL_KEY=$(cat \"$WORLD\"/keys/*.data | paste -sd,)",
        ),
    ],
    key_files: &[("movers.keys", &["m1.data", "m2.data"])],
    copies_to: "a.example",
};

pub(super) const HTTP: Document = Document {
    file: "docs/http.md",
    machines: &[
        machine(
            "node.example",
            "mkdir -p /srv/data /srv/public /var/lib/longhaul && echo run > /srv/data/run7
            printf '[macaroons]\\nmax_validity = \"24h\"\\n' > /var/lib/longhaul/access.toml
            longhaul grant --export data --write",
        ),
        machine(
            "other.example",
            "mkdir -p /srv/data && echo f > /srv/data/f && longhaul grant --export data
            longhaul serve --listen [::]:443 --export data=/srv/data --certificate host.pem",
        ),
        machine("node", "mkdir -p /srv/data && echo run > /srv/data/run7.h5 && longhaul grant --export data"),
        machine("collector.example.org", ""),
        machine(
            "here",
            "head -c 2M /dev/urandom > run7.tar
            export LONGHAUL_KEY=$(cat \"$WORLD/keys/node.example.data\") KEY=$(cat \"$WORLD/keys/node.data\")
            export HERE=$LONGHAUL_KEY TOKEN=$LONGHAUL_KEY THERE=$(cat \"$WORLD/keys/other.example.data\")",
        ),
    ],
    key_files: &[],
    copies_to: "node.example",
};

pub(super) const API: Document = Document {
    file: "docs/api.md",
    machines: &[
        machine("far.example.org", WITH_DATA),
        machine(
            "dtn.example.org",
            "mkdir -p /srv/data && tree /srv/data/run7 300M && longhaul grant --export data --write
            longhaul serve --audit --export data=/srv/data:rw --certificate host.pem",
        ),
        machine("here", "export FAR_KEY=$(cat \"$WORLD/keys/far.example.org.data\")"),
    ],
    key_files: &[],
    copies_to: "dtn.example.org",
};
