# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sizes and metadata: one image beside the directory that is in it."""

import os
import stat

from fileserver import Client
from image import SHORT, Image, NotHere, Work, attempt, exact, program, text_of
from pairs import compare, figure, left_out, timed

# What a metadata server is asked, in contrast to what it is asked to read.
METADATA = ("lookup", "getattr", "readlink", "open", "opendir", "readdir", "statfs")


class Tree:
    """What a directory consists of. A file with several names counts once."""

    def __init__(self, directory):
        self.bytes = self.on_disk = self.names = 0
        self.kinds = {"files": 0, "directories": 0, "links": 0}
        seen = set()
        for place, directories, files in os.walk(directory):
            for name in directories + files:
                self.add(os.lstat(os.path.join(place, name)), seen)
        self.inodes = len(seen)

    def add(self, found, seen):
        self.names += 1
        if (found.st_dev, found.st_ino) in seen:
            return
        seen.add((found.st_dev, found.st_ino))
        self.on_disk += found.st_blocks * 512
        if stat.S_ISREG(found.st_mode):
            self.bytes += found.st_size
            self.kinds["files"] += 1
        elif stat.S_ISDIR(found.st_mode):
            self.kinds["directories"] += 1
        else:
            self.kinds["links"] += 1


def sizes(image, directory):
    tree = Tree(directory)
    size = os.stat(image.path)
    exact("sizes_bytes", size.st_size, tree.bytes, "B")
    exact("sizes_on_disk", size.st_blocks * 512, tree.on_disk, "B")
    exact("sizes_inodes", 1, tree.inodes, "inodes")
    for kind, count in tree.kinds.items():
        figure(f"sizes_{kind}", count, kind)


def search(image):
    """A search that asks for the attributes of every file. An image with a root is several mounts."""
    return ["find", "/usr" if image.is_root else image.mount_point, "-xdev", "-newermt", "2000-01-01", "-printf", "."]


def search_time(image, directory):
    """The time of some searches in one start, so that the search is what takes it."""
    found = [len(text_of(command)) for command in (image.run(*search(image)), image.in_directory(directory, *search(image)))]
    # Places of this machine that are seen in an image can have names of their own.
    if min(found) < 0.99 * max(found) or not min(found):
        raise NotHere(f"the search finds {found[0]} files in the image, and {found[1]} in the directory")
    loop = f"i=0; while [ $i -lt 10 ]; do {' '.join(search(image))} >/dev/null || exit; i=$((i+1)); done"
    ours, other = image.run("sh", "-c", loop), image.in_directory(directory, "sh", "-c", loop)
    compare("sizes_search", timed(*ours), timed(*other), 3 if SHORT else 9)


def total(requests, kinds=None):
    return sum(count for kind, count in requests.items() if kinds is None or kind in kinds)


def asked(work, directory, command_for):
    """Runs a command on a node that has no file yet, and returns what the file server was asked."""
    # What is counted does not depend on how long an answer takes.
    with Client(directory, work.place("server"), round_trip=0) as client:
        text_of(command_for(client.path))
        return client.requests()


def requests(image, work, directory, name, command):
    """What the server of the files is asked for a command: with the image, and with the directory, on it."""
    holder = os.path.dirname(os.path.realpath(image.path))
    file = os.path.basename(os.path.realpath(image.path))
    of_image = asked(work, holder, lambda place: image.run(*command, path=os.path.join(place, file)))
    of_directory = asked(work, directory, lambda place: image.in_directory(place, *command))
    exact(f"sizes_requests_{name}", total(of_image), total(of_directory), "requests")
    exact(f"sizes_metadata_{name}", total(of_image, METADATA), total(of_directory, METADATA), "requests")


def calls(image, command):
    """How often a program asks the kernel for files by name: the more, the more a directory costs."""
    tracer = [program("strace"), "-f", "-qq", "-e", "trace=%file", "-e", "signal=none", "-o", "/dev/stdout"]
    command = image.run(*command)
    bare = image.run("true")
    count = lambda what: len([line for line in text_of(tracer + what).splitlines() if "(" in line])  # noqa: E731
    figure("sizes_calls_numpy", max(count(command) - count(bare), 0), "calls")


def main():
    image = Image()
    of_search = "sizes_requests_search sizes_metadata_search"
    of_numpy = "sizes_requests_numpy sizes_metadata_numpy"
    with Work() as work:
        try:
            directory = image.unpack(work.place("directory"))
        except NotHere as reason:
            rows = f"sizes_bytes sizes_on_disk sizes_inodes sizes_search sizes_calls_numpy {of_search} {of_numpy}"
            for row in rows.split():
                left_out(row, reason)
            return
        attempt("sizes_bytes sizes_on_disk sizes_inodes", sizes, image, directory)
        attempt("sizes_search", search_time, image, directory)
        attempt(of_search, requests, image, work, directory, "search", search(image))
        numpy = ["python3", "-c", "import numpy"]
        attempt(of_numpy, requests, image, work, directory, "numpy", numpy)
        attempt("sizes_calls_numpy", calls, image, numpy)


if __name__ == "__main__":
    main()
