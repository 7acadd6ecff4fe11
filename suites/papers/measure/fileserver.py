# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A file server that counts: a directory, read-only, through FUSE.

The kernel caches what an NFS client caches: names and attributes for a time, and what was read. Each mount is a client
with empty caches, as a node that has not used the files. Each opened file asks for its attributes, as NFS does. An answer takes
as long as one over a network of a cluster, and many requests can be on the way at once.

    fileserver.py DIRECTORY MOUNT_POINT SECONDS

SECONDS is the round trip of a request. It says `ready`, and for each line of its input how many requests of each kind it has answered since the line before,
as JSON. At the end of the input it unmounts.
"""

import collections
import contextlib
import errno
import json
import os
import select
import socket
import stat
import struct
import subprocess
import sys
import time

from image import NotHere, program

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
READ_IN = struct.Struct("<QQIIQII")
LOOKUP, FORGET, GETATTR, READLINK, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 5, 14, 15, 17, 18
INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 26, 27, 28, 29, 36, 38, 42
# What a file server is asked. What only this interface has is no request.
COUNTED = {LOOKUP: "lookup", GETATTR: "getattr", READLINK: "readlink", OPEN: "open", READ: "read", OPENDIR: "opendir",
           READDIR: "readdir", STATFS: "statfs"}
SILENT = {FORGET, BATCH_FORGET, INTERRUPT}
ASYNC_READ, MAX_PAGES, PARALLEL_DIROPS = 1 << 0, 1 << 22, 1 << 18
KEEP_CACHE, CACHE_DIR = 1 << 1, 1 << 3
# The usual limits of an NFS client, in seconds: acregmin and acdirmin.
ATTRIBUTES_VALID, NAMES_VALID = 3, 30
# The round trip of a request, in seconds, beside the work of the server.
ROUND_TRIP = 0.00025
PAGES = 256
SIZE = PAGES * 4096 + 65536


def mount(mount_point):
    """Mounts through fusermount3, which gives users the right to, and returns the connection to the kernel."""
    options = "ro,fsname=cabane-papers,subtype=counted"
    if os.geteuid() == 0:
        options += ",allow_other"
    ours, theirs = socket.socketpair()
    command = [program("fusermount3"), "-o", options, "--", mount_point]
    environment = {**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}
    done = subprocess.run(
        command, check=False, env=environment, pass_fds=[theirs.fileno()], capture_output=True, text=True
    )
    theirs.close()
    if done.returncode != 0:
        raise NotHere(f"fusermount3: {done.stderr.strip()}")
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    return descriptors[0]


class Server:
    """Answers the kernel."""

    def __init__(self, root, connection, round_trip):
        self.connection = connection
        self.round_trip = round_trip
        self.paths = {1: root}
        self.numbers = {root: 1}
        self.files = {}
        self.opens = 0
        self.descriptors = {}
        self.counts = {}
        self.waiting = collections.deque()

    def attributes(self, path):
        found = os.lstat(path)
        times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        seconds = [time // 10**9 for time in times]
        rest = [time % 10**9 for time in times]
        return ATTRIBUTES.pack(
            found.st_ino, found.st_size, found.st_blocks, *seconds, *rest, found.st_mode, found.st_nlink,
            found.st_uid, found.st_gid, 0, 4096, 0,
        )  # fmt: skip

    def lookup(self, node, body):
        path = os.path.join(self.paths[node], os.fsdecode(body.rstrip(b"\0")))
        try:
            attributes = self.attributes(path)
        except FileNotFoundError:
            # No such name, and the kernel may remember that.
            return struct.pack("<QQQQII", 0, 0, NAMES_VALID, 0, 0, 0) + bytes(ATTRIBUTES.size)
        number = self.numbers.setdefault(path, len(self.numbers) + 1)
        self.paths[number] = path
        return struct.pack("<QQQQII", number, 0, NAMES_VALID, ATTRIBUTES_VALID, 0, 0) + attributes

    def opened(self, path, flags):
        """Opens a file or a directory. Many clients that have one open share a descriptor, of which there are few."""
        if flags != CACHE_DIR:
            shared = self.descriptors.setdefault(path, [None, 0])
            if shared[1] == 0:
                shared[0] = os.open(path, os.O_RDONLY)
            shared[1] += 1
        self.opens += 1
        self.files[self.opens] = [path, flags, None]
        return struct.pack("<QIi", self.opens, flags | KEEP_CACHE, 0)

    def released(self, body):
        path, flags, _ = self.files.pop(struct.unpack_from("<Q", body)[0])
        if flags == CACHE_DIR:
            return
        shared = self.descriptors[path]
        shared[1] -= 1
        if shared[1] == 0:
            os.close(shared[0])

    def entries(self, body):
        opened, offset, size, *_ = READ_IN.unpack_from(body)
        directory = self.files[opened]
        if directory[2] is None:
            directory[2] = [(".", stat.S_IFDIR), ("..", stat.S_IFDIR)] + [
                (entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in os.scandir(directory[0])
            ]
        answer = b""
        for place, (name, mode) in enumerate(directory[2][offset:], offset + 1):
            name = os.fsencode(name)
            line = struct.pack("<QQII", place, place, len(name), stat.S_IFMT(mode) >> 12) + name
            line += bytes(-len(line) % 8)
            if len(answer) + len(line) > size:
                break
            answer += line
        return answer

    def answer(self, kind, node, body):
        path = self.paths.get(node, "")
        if kind == LOOKUP:
            return self.lookup(node, body)
        if kind == GETATTR:
            return struct.pack("<QII", ATTRIBUTES_VALID, 0, 0) + self.attributes(path)
        if kind == READLINK:
            return os.fsencode(os.readlink(path))
        if kind == OPEN:
            return self.opened(path, 0)
        if kind == OPENDIR:
            return self.opened(path, CACHE_DIR)
        if kind == READ:
            opened, offset, size, *_ = READ_IN.unpack_from(body)
            return os.pread(self.descriptors[self.files[opened][0]][0], size, offset)
        if kind == READDIR:
            return self.entries(body)
        if kind in (RELEASE, RELEASEDIR):
            self.released(body)
            return b""
        if kind == STATFS:
            found = os.statvfs(path)
            return struct.pack(
                "<QQQQQIIII24x", found.f_blocks, 0, 0, found.f_files, 0, found.f_bsize, 255, found.f_frsize, 0
            )
        if kind == INIT:
            _, _, read_ahead, flags = struct.unpack_from("<IIII", body)
            flags &= ASYNC_READ | MAX_PAGES | PARALLEL_DIROPS
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, read_ahead, flags, 64, 48, 131072, 1, PAGES, 0, 0)
        if kind == DESTROY:
            return b""
        raise OSError(errno.ENOSYS, "")

    def read_one(self):
        """Takes one request, if there is one. Returns whether the file system is still mounted."""
        try:
            self.waiting.append((time.monotonic() + self.round_trip, os.read(self.connection, SIZE)))
        except OSError as error:
            return error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT)
        return True

    def answer_one(self, request):
        _, kind, unique, node, *_ = IN_HEADER.unpack_from(request)
        if kind in SILENT:
            return
        if kind in COUNTED:
            self.counts[COUNTED[kind]] = self.counts.get(COUNTED[kind], 0) + 1
        code, answer = 0, b""
        try:
            answer = self.answer(kind, node, request[IN_HEADER.size :])
        except OSError as error:
            code = -(error.errno or errno.EIO)
        head = OUT_HEADER.pack(OUT_HEADER.size + len(answer), code, unique)
        # The one that asked may have gone, and the mount as well.
        with contextlib.suppress(OSError):
            os.writev(self.connection, [head, answer])

    def serve(self):
        commands = sys.stdin.fileno()
        os.set_blocking(self.connection, False)
        while True:
            timeout = max(self.waiting[0][0] - time.monotonic(), 0) if self.waiting else None
            readable, _, _ = select.select([self.connection, commands], [], [], timeout)
            if self.connection in readable and not self.read_one():
                return
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                self.answer_one(self.waiting.popleft()[1])
            if commands in readable:
                if not os.read(commands, 1):
                    return
                print(json.dumps(self.counts), flush=True)
                self.counts = {}


class Client:
    """A node that has not used the files of a directory: a mount of its own, as long as the block runs."""

    def __init__(self, directory, mount_point, round_trip=ROUND_TRIP):
        os.makedirs(mount_point, exist_ok=True)
        self.path = mount_point
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, directory, mount_point, str(round_trip)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self):
        if self.process.stdout.readline().strip() != "ready":
            reason = self.process.stderr.read().strip() or "the file server did not start"
            self.process.wait()
            raise NotHere(reason.splitlines()[-1])
        return self

    def requests(self):
        """Returns how many requests of each kind came since the last question."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def round_trip(self):
        """Returns how long a request takes, in milliseconds: for names that are not there."""
        count = 200
        begun = time.perf_counter()
        for number in range(count):
            os.path.exists(f"{self.path}/not-there-{number}")
        return (time.perf_counter() - begun) * 1000 / count

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def main(directory, mount_point, round_trip):
    try:
        connection = mount(mount_point)
    except NotHere as reason:
        sys.exit(str(reason))
    try:
        print("ready", flush=True)
        Server(os.path.realpath(directory), connection, float(round_trip)).serve()
    finally:
        # A loop device may still have the image open for a moment.
        subprocess.run(["fusermount3", "-u", "-z", "--", mount_point], check=False, capture_output=True)
        os.close(connection)


if __name__ == "__main__":
    main(*sys.argv[1:])
