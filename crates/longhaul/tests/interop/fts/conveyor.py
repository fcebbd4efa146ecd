"""Runs Rucio with its own core and its own conveyor, on a database of its own: makes rules, moves their files through FTS's API of a hub, and
compares the files that arrived with those that were sent. One argument: a JSON file with all paths and URLs."""

import json
import logging
import os
import pathlib
import sys
import time
import zlib

SETTINGS = json.loads(pathlib.Path(sys.argv[1]).read_text())
HOME = pathlib.Path(SETTINGS["home"])
# How long all rules together may take.
PATIENCE_S = 300
# The most files that a report names.
EXAMPLES = 5


def write_settings():
    """The settings that Rucio reads when it is imported."""
    packages = next(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages"))
    postgres = SETTINGS["database"].startswith("postgresql")
    cfg = f"""
[common]
logdir = {HOME}
loglevel = INFO
[database]
default = {SETTINGS["database"]}
{"schema = rucio" if postgres else ""}
pool_size = 10
max_overflow = 5
[alembic]
cfg = {HOME}/alembic.ini
[bootstrap]
userpass_identity = ddmlab
userpass_pwd = secret
userpass_email = test@example.org
[client]
rucio_host = http://127.0.0.1:1
auth_host = http://127.0.0.1:1
account = root
auth_type = userpass
username = ddmlab
password = secret
[conveyor]
scheme = davs,https
transfertool = fts3
ftshosts = {SETTINGS["hub"]}
use_deterministic_id = True
{"usercert = " + SETTINGS["usercert"] if SETTINGS["usercert"] else ""}
[transfers]
use_multihop = True
[policy]
permission = generic
schema = generic
lfn2pfn_algorithm_default = hash
"""
    alembic = f"""
[alembic]
script_location = {packages}/rucio/db/sqla/migrate_repo/
sqlalchemy.url = {SETTINGS["database"].replace("%", "%%")}
{"version_table_schema = rucio" if postgres else ""}
[loggers]
keys = root
[handlers]
keys = console
[formatters]
keys = generic
[logger_root]
level = WARN
handlers = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
formatter = generic
[formatter_generic]
format = %(message)s
"""
    (HOME / "rucio.cfg").write_text(cfg)
    (HOME / "alembic.ini").write_text(alembic)
    os.environ.update(RUCIO_HOME=str(HOME), RUCIO_CONFIG=str(HOME / "rucio.cfg"))


write_settings()

from rucio.common.types import InternalAccount, InternalScope  # noqa: E402
from rucio.core import account_limit, did, distance, replica, rse, rule, scope  # noqa: E402
from rucio.daemons.conveyor import finisher, poller, submitter  # noqa: E402
from rucio.db.sqla import models  # noqa: E402
from rucio.db.sqla.constants import DIDType  # noqa: E402
from rucio.db.sqla.session import transactional_session  # noqa: E402
from rucio.db.sqla.util import build_database, create_base_vo, create_root_account  # noqa: E402

ROOT = InternalAccount("root")
SCOPE = InternalScope("test")


def in_session(call):
    """Calls a function with a database session, and commits."""

    @transactional_session
    def inner(*, session):
        return call(session)

    return inner()


def add_rse(name, place):
    """Makes an RSE of a node, which Rucio reaches by WebDAV."""

    def add(session):
        rse_id = rse.add_rse(name, session=session)
        both = {"read": 1, "write": 1, "delete": 1}
        domains = {"lan": both, "wan": both | {"third_party_copy_read": 1, "third_party_copy_write": 1}}
        protocol = {"scheme": "davs", "hostname": place["host"], "port": place["port"], "prefix": "/data/", "domains": domains,
                    "impl": "rucio.rse.protocols.webdav.Default"}
        rse.add_protocol(rse_id, protocol, session=session)
        rse.add_rse_attribute(rse_id, "fts", SETTINGS["hub"], session=session)
        rse.add_rse_attribute(rse_id, "verify_checksum", True, session=session)
        account_limit.set_local_account_limit(ROOT, rse_id, -1, session=session)
        return rse_id

    return in_session(add)


class Storage:
    """An RSE, and the directory that its node serves."""

    def __init__(self, name, place):
        self.name, self.disk, self.id = name, pathlib.Path(place["disk"]), add_rse(name, place)

    def path(self, name):
        """The path of a file by Rucio's algorithm `hash`."""
        from hashlib import md5

        digest = md5(f"test:{name}".encode()).hexdigest()
        return self.disk / "test" / digest[0:2] / digest[2:4] / name

    def put(self, files):
        """Writes files, and registers them in Rucio; 200 at once, because SQLite limits the size of a statement."""
        described = []
        for name, content in files.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            adler32 = f"{zlib.adler32(content) & 0xffffffff:08x}"
            described.append({"scope": SCOPE, "name": name, "bytes": len(content), "adler32": adler32})
        for at in range(0, len(described), 200):
            part = described[at : at + 200]
            in_session(lambda session: replica.add_replicas(self.id, part, ROOT, session=session))

    def lacks(self, files):
        """The files that are missing here or have other bytes."""
        return [name for name, content in files.items() if not self.path(name).exists() or self.path(name).read_bytes() != content]


def add_rule(name, target):
    """A rule for a file or a dataset."""

    def add(session):
        dids = [{"scope": SCOPE, "name": name}]
        return rule.add_rule(dids=dids, account=ROOT, copies=1, rse_expression=target.name, grouping="DATASET", weight=None,
                             lifetime=None, locked=False, subscription_id=None, activity="User Subscriptions", session=session)[0]

    return in_session(add)


def add_dataset(name, files):
    """A dataset of files that Rucio knows."""

    def add(session):
        did.add_did(scope=SCOPE, name=name, did_type=DIDType.DATASET, account=ROOT, session=session)
        dids = [{"scope": SCOPE, "name": file} for file in files]
        did.attach_dids(scope=SCOPE, name=name, dids=dids, account=ROOT, session=session)

    in_session(add)


def states(rules):
    """The states of rules."""

    def read(session):
        found = session.query(models.ReplicationRule).filter(models.ReplicationRule.id.in_(rules)).all()
        return {str(rule.id): (rule.state.name, rule.locks_ok_cnt, rule.locks_replicating_cnt, rule.locks_stuck_cnt, rule.error) for rule in found}

    return in_session(read)


def one_round():
    """Each of the three daemons once."""
    submitter.submitter(once=True, bulk=2000, group_bulk=200, group_policy="src_dest", partition_wait_time=0)
    poller.poller(once=True, older_than=0, fts_bulk=100, db_bulk=2000, partition_wait_time=0)
    finisher.finisher(once=True, bulk=1000, db_bulk=2000, partition_wait_time=0)


def unavailable(storage, files):
    """Those replicas that are not AVAILABLE."""

    def read(session):
        query = session.query(models.RSEFileAssociation).filter(models.RSEFileAssociation.rse_id == storage.id)
        return {row.name: row.state.name for row in query.all()}

    found = in_session(read)
    return {name: found.get(name) for name in files if found.get(name) != "AVAILABLE"}


def prepare():
    """Sets Rucio up."""
    build_database()
    create_base_vo()
    create_root_account()
    in_session(lambda session: scope.add_scope(SCOPE, ROOT, session=session))
    a, b, c = (Storage(name, place) for name, place in SETTINGS["rses"].items())
    # From A to C there is only the path over B.
    for source, target in [(a, b), (b, c), (c, b)]:
        in_session(lambda session: distance.add_distance(source.id, target.id, distance=1, session=session))
    in_session(lambda session: rse.add_rse_attribute(b.id, "available_for_multihop", True, session=session))
    return a, b, c


def main():
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    a, b, c = prepare()
    single = {"single": b"one file" * 1000}
    several = {"several": b"of several sources" * 1000}
    hops = {"hops": b"over a node between" * 1000}
    many = {f"many{at:04}": f"file {at} ".encode() * (at % 50 + 1) for at in range(SETTINGS["many"])}
    a.put(single | hops | many)
    a.put(several)
    c.put(several)
    rules = [add_rule("single", b), add_rule("several", b), add_rule("hops", c)]
    names = sorted(many)
    # SQLite accepts no more files in one statement.
    for at in range(0, len(names), 250):
        add_dataset(f"set{at}", names[at : at + 250])
        rules.append(add_rule(f"set{at}", b))
    until, rounds = time.monotonic() + PATIENCE_S, 0
    while True:
        rounds += 1
        one_round()
        seen = states(rules)
        print(rounds, sorted(set(seen.values())), file=sys.stderr)
        if all(state[0] == "OK" for state in seen.values()) or time.monotonic() > until:
            break
        time.sleep(1)
    unready = unavailable(b, single | several | many) | unavailable(c, hops)
    report = {
        "rounds": rounds,
        "rules": sorted({state[0] for state in seen.values()}),
        "errors": sorted({state[4] for state in seen.values() if state[4]}),
        "other_bytes": (b.lacks(single | several | many) + c.lacks(hops))[:EXAMPLES],
        "unavailable": sorted(unready.items())[:EXAMPLES],
        "files": len(many) + 3,
    }
    print(json.dumps(report))


main()
