"""Simulates a tape library: few drives, cartridges that have to be mounted, files that are read one after another.

The command line that a node runs: `tape_library.py ROOT VERB` in the export's directory, paths as lines of JSON on standard input, an answer for each. ROOT has `config.json`
(drives, mount_s, bytes_s), the files that are on tape below `tape/`, and a log of the actions of the drives. The cartridge of a file is its name up to the first dot.
Several runs share the drives.
"""

import fcntl
import json
import os
import shutil
import sys
import threading
import time

ROOT, VERB = sys.argv[1], sys.argv[2]
CONFIG = json.load(open(os.path.join(ROOT, "config.json")))
OUTPUT = threading.Lock()


def on_tape(path):
    return os.path.join(ROOT, "tape", path)


def answer(path, **facts):
    with OUTPUT:
        print(json.dumps({"path": path, **facts}), flush=True)


def log(**facts):
    with OUTPUT, open(os.path.join(ROOT, "log"), "a") as file:
        file.write(json.dumps(facts) + "\n")


def copy(source, target):
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    shutil.copyfile(source, target + ".part")
    os.rename(target + ".part", target)


def free_drive():
    """A free drive, locked."""
    while True:
        for number in range(CONFIG["drives"]):
            drive = open(os.path.join(ROOT, f"drive{number}"), "w")
            try:
                fcntl.flock(drive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return number, drive
            except BlockingIOError:
                drive.close()
        time.sleep(0.005)


def read_cartridge(cartridge, paths):
    number, drive = free_drive()
    with drive:
        time.sleep(CONFIG["mount_s"])
        log(event="mount", drive=number, cartridge=cartridge, files=len(paths))
        for path in sorted(paths):
            if not os.path.exists(on_tape(path)):
                answer(path, error="No such file on any cartridge")
                continue
            seconds = os.path.getsize(on_tape(path)) / CONFIG["bytes_s"]
            began = time.monotonic()
            time.sleep(seconds)
            copy(on_tape(path), path)
            log(event="read", drive=number, path=path, began=began, ended=time.monotonic(), model_s=seconds)
            answer(path)


def recall(paths):
    log(event="run", files=len(paths))
    cartridges = {}
    for path in paths:
        cartridges.setdefault(os.path.basename(path).split(".")[0], []).append(path)
    threads = [threading.Thread(target=read_cartridge, args=one) for one in cartridges.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    paths = [json.loads(line)["path"] for line in sys.stdin]
    if VERB == "recall":
        recall(paths)
        return
    for path in paths:
        if VERB == "archive":
            copy(path, on_tape(path))
            answer(path)
        elif VERB == "release":
            if os.path.exists(path) and os.path.exists(on_tape(path)):
                os.remove(path)
            answer(path)
        elif VERB == "locality":
            where = (os.path.exists(path), os.path.exists(on_tape(path)))
            words = {(True, True): "DISK_AND_TAPE", (True, False): "DISK", (False, True): "TAPE"}
            if where in words:
                answer(path, locality=words[where])
            else:
                answer(path, error="No such file")


main()
