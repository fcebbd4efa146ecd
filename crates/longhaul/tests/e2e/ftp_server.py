# An FTP server for tests: `ftp_server.py DIR MODE`, where MODE is `plain` or the file of a certificate with its key.
# Prints its port. Anonymous clients may read; ann, with the password secret, may do everything.

import os
import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import ThreadedFTPServer

directory, mode = sys.argv[1:]
handler = FTPHandler
if mode != "plain":
    from pyftpdlib.handlers import TLS_FTPHandler

    handler = TLS_FTPHandler
    handler.certfile = mode
    handler.tls_control_required = True
    handler.tls_data_required = True
handler.authorizer = DummyAuthorizer()
handler.authorizer.add_anonymous(directory)
handler.authorizer.add_user("ann", "secret", directory, perm="elradfmwMT")
if os.environ.get("OLD"):
    # A server of before RFC 3659.
    for command in ("MLST", "MLSD"):
        handler.proto_cmds = {name: value for name, value in handler.proto_cmds.items() if name != command}
server = ThreadedFTPServer(("127.0.0.1", 0), handler)
print(server.socket.getsockname()[1], flush=True)
server.serve_forever()
