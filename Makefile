# The four targets for everyday work: demo, check, test, build. Everything else is in `cargo xtask`.

.DEFAULT_GOAL := build

.PHONY: build
build: setup portal ## the program, at target/release/longhaul
	cargo build --release --package longhaul

.PHONY: setup
setup: ## installs the packages that building and testing need, or prints the command that does
	@sh scripts/setup.sh

.PHONY: portal
portal: ## the hub's pages, into target/portal, if npm is installed; `make build` puts them into the program
	@sh scripts/portal.sh

.PHONY: pictures
pictures: build ## pictures of the portal of a running demo, for docs/portal.md; needs root for its emulated network, and Chromium
	cd crates/hub/portal && LONGHAUL=$(CURDIR)/target/release/longhaul CHROMIUM=/usr/bin/chromium OUT=$(CURDIR)/docs/pictures node tests/pictures.mjs

.PHONY: demo
demo: setup portal ## starts two nodes on this machine and copies a tree from one to the other; says how to see a whole collaboration
	cargo build --profile demo --package longhaul --package xtask
	target/demo/xtask demo

.PHONY: check
check: ## format, lints, dependencies, house rules and all pure tests: no root, no packages; before every commit
	cargo xtask check

# The settings with which the test runner builds (crates/xtask/src/suite/build.rs): with the same settings here, shared crates are
# compiled once.
LINTING := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

.PHONY: test
test: setup portal ## every test and every check, as CI runs them
	$(LINTING) cargo test --workspace --test tidy --no-run
	$${CARGO_TARGET_DIR:-target}/debug/xtask test

.PHONY: stress
stress: setup ## every test five times on a machine that is kept busy; takes hours; writes docs/results/stress.md
	cargo xtask stress $(STRESS)

.PHONY: check-packaging
check-packaging: ## the chart, the compose file, the role, the RPM package and the image, with what scripts/setup-packaging.sh installs
	sh scripts/check-packaging.sh

.PHONY: test-interop
test-interop: setup ## stock clients and servers (curl, davix, gfal2, rclone, xrootd) beside a node, FTS's client and Rucio at a hub; a part of make test
	cargo test --package longhaul --test interop

.PHONY: bench
bench: build ## Longhaul beside the peers that scripts/setup-bench.sh installs; writes docs/results; BENCH="--help"
	cargo run --release --quiet --package bench -- $(BENCH)

.PHONY: bench-micro
bench-micro: ## the steps of each byte and each record, one by one: checksums, seals, records, ledger, allocation; writes docs/results/micro.md; BENCH="--help"
	cargo bench --quiet --workspace --bench checksum --bench seal --bench record --bench ledger --bench allocation -- $(BENCH)
	cargo run --release --quiet --package bench --bin micro-page

.PHONY: bench-lab
bench-lab: build ## the lab itself: the rate that it carries, its accuracy; rate against RTT and loss; BENCH="--help"
	cargo run --release --quiet --package bench --bin lab-paths -- $(BENCH)

.PHONY: bench-wan
bench-wan: build ## Longhaul beside its peers over emulated wide-area paths; takes an hour; BENCH="--help"
	cargo run --release --quiet --package bench --bin wan -- $(BENCH)

.PHONY: bench-probe
bench-probe: build ## the probe beside iperf3 over loopback; BENCH="--help"
	cargo run --release --quiet --package bench --bin probe -- $(BENCH)
	cargo run --release --quiet --package bench --bin faults

.PHONY: bench-http-service
bench-http-service: build ## the HTTP service of a node beside xrootd's over loopback: bytes, small files, idle connections, requests; BENCH="--help"
	cargo run --release --quiet --package bench --bin file-service -- --protocol http $(BENCH)

.PHONY: bench-root
bench-root: build ## XRootD's protocol of a node beside xrootd's over loopback: bytes, small files, third-party copies, idle logins, requests; reads over 303 ms; needs root; BENCH="--help"
	cargo run --release --quiet --package bench --bin file-service -- --protocol root $(BENCH)

.PHONY: bench-scale
bench-scale: build ## a node with many streams, jobs, native sessions and HTTP requests, over loopback; BENCH="--help"
	cargo run --release --quiet --package bench --bin scale -- $(BENCH)

.PHONY: bench-api
bench-api: build ## the cost of listing 10,000 transfers by the node's API, over loopback; BENCH="--help"
	cargo run --release --quiet --package bench --bin api -- $(BENCH)

.PHONY: bench-hub
bench-hub: build ## a hub over loopback: jobs submitted, lists while many wait, allocation, small files through it; BENCH="--help"
	cargo run --release --quiet --package bench --bin hub -- $(BENCH)

.PHONY: bench-hub-deep
bench-hub-deep: build ## a hub with ten million files that wait, a million small ones, a data set beside cp; takes minutes and 12 GB; BENCH="--help"
	cargo run --release --quiet --package bench --bin hub-deep -- $(BENCH)

.PHONY: bench-watch-archive
bench-watch-archive: ## the cost of a watch of 100 sites: a year of its archive, views of it, the measurements of 9,900 pairs as they arrive; BENCH="--help"
	cargo run --release --quiet --package bench --bin watch-archive -- $(BENCH)

.PHONY: bench-watch
bench-watch: build ## faults in a mesh of six emulated sites, and the alarms of a watch; takes an hour; needs root; BENCH="--help"
	cargo run --release --quiet --package bench --bin watch-lab -- $(BENCH)

.PHONY: bench-exercise
bench-exercise: build ## the exercises that come with the program, old tools beside Longhaul, a search beside the full grid; takes an hour and a half; needs root; BENCH="--help"
	cargo run --release --quiet --package bench --bin exercise -- $(BENCH)

.PHONY: bench-plan
bench-plan: ## the simulator at the scale of the high-luminosity LHC, and questions of planning; BENCH="--help"
	cargo run --release --quiet --package bench --bin plan -- $(BENCH)

.PHONY: bench-plan-lab
bench-plan-lab: build ## completion times of the simulator beside those of real transfers in the lab; needs root; BENCH="--help"
	cargo run --release --quiet --package bench --bin plan-lab -- $(BENCH)

.PHONY: bench-portal
bench-portal: build ## a hub while a hundred people have pages of the portal open and a thousand transfers run; BENCH="--help"
	cargo run --release --quiet --package bench --bin portal -- $(BENCH)

.PHONY: bench-separate
bench-separate: build ## what a network stack of its own (a MacVLAN in a namespace) costs a node, over a veth; needs root; BENCH="--help"
	cargo run --release --quiet --package bench --bin separate -- $(BENCH)

.PHONY: bench-catalogue
bench-catalogue: build ## ten million files in the catalogue of a hub: look-ups, rules; takes minutes and 8 GB; BENCH="--help"
	cargo run --release --quiet --package bench --bin catalogue -- $(BENCH)

.PHONY: bench-hub-lab
bench-hub-lab: build ## a hub and three sites behind one emulated link: marks, shares, deadlines; needs root; BENCH="--help"
	cargo run --release --quiet --package bench --bin hub-lab -- $(BENCH)

.PHONY: bench-eta
bench-eta: build ## the accuracy of the time left that cp shows: real jobs over emulated paths; BENCH="--help"
	cargo run --release --quiet --package bench --bin eta -- $(BENCH)

.PHONY: bench-mirrors
bench-mirrors: build ## copies from many sources that slow down and die, over relays on loopback: tails and shares; BENCH="--help"
	cargo run --release --quiet --package bench --bin mirrors -- $(BENCH)

.PHONY: bench-several
bench-several: build ## one job over two emulated paths: its rate, its shares, the cost of a cut; BENCH="--help"
	cargo run --release --quiet --package bench --bin several -- $(BENCH)

.PHONY: bench-movers
bench-movers: build ## one job over a node and a mover of it, each at the end of an emulated path; BENCH="--help"
	cargo run --release --quiet --package bench --bin several -- --movers $(BENCH)

.PHONY: soak
soak: build ## random faults by the thousand, then an hour at full rate; writes docs/results
	cargo xtask soak

.PHONY: fuzz
fuzz: ## every parser and both protocol machines, guided by coverage; takes hours, continues where it ended; FUZZ="--help"
	cargo xtask fuzz $(FUZZ)

.PHONY: deb
deb: build ## a Debian package, into target/dist
	cargo xtask deb

.PHONY: rpm
rpm: build ## an RPM package for Enterprise Linux, into target/dist
	cargo xtask rpm

.PHONY: dist
dist: build ## an archive for other systems with its checksums, into target/dist
	cargo xtask dist

.PHONY: release
release: ## what is published of a commit: packages against an old C library, symbols, bill of materials, checksums; scripts/setup-release.sh first
	sh scripts/release.sh

.PHONY: try-release
try-release: ## the package of `make release` on a system with an older C library; needs root
	sh scripts/try-release.sh

.PHONY: former
former: ## the program of the former release, for the tests of the promises between versions
	sh scripts/former.sh

.PHONY: image
image: deb ## a container image, into target/dist, without a daemon or a registry; needs root and scripts/setup-packaging.sh
	sh scripts/image.sh

.PHONY: try-deb
try-deb: build ## the package on a system of its own, from installing to purging, with an upgrade during a transfer; needs root
	cargo xtask try-deb

.PHONY: man
man: build ## manual pages and completions, into target/man
	target/release/longhaul man --out target/man
	for shell in bash zsh fish; do target/release/longhaul completions $$shell > target/man/longhaul.$$shell; done

.PHONY: help
help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'
