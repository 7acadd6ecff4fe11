# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Start-up of 1 to 256 processes: `true`, `import numpy`, and a program with 200 shared libraries.

All processes of a start share one environment, as those of a job's step on a node do: a shell in it starts them, and
waits for all. On a file server, each start is that of a node which has not used the files before.
"""

import concurrent.futures
import getpass
import itertools
import os
import shlex
import shutil
import subprocess
import time

from fileserver import Client
from image import MEMORY, PROGRAM, SHARED, SHORT, Image, NotHere, Work, attempt, free, program, text_of
from pairs import compare, figure, left_out, seconds, timed

LIBRARIES = 200
COUNTS = (1, 16, 256)
# Starts of their own, each with its mounts: as `srun` without the plugin starts ranks.
EACH = 8 if SHORT else 64
ROUNDS = 3 if SHORT else 9
# Half a minute a start, on two cores.
FEW = 2
MOST = {"true": 16 if SHORT else 256, "libraries": 16 if SHORT else 256, "numpy": 1 if SHORT else 16}
MOST_ON_SERVER = {**MOST, "numpy": 1 if SHORT else 256}
TRUE = ["true"]
NUMPY = ["python3", "-c", "import numpy"]
PEERS = " ".join(
    f"start_{what}_{tool}" for what in ("true_1", "numpy_1", "each") for tool in ("apptainer", "charliecloud", "podman")
)
NODES = (1, 2, 4, 8)
RANKS = 4 if SHORT else 16
# Where sites let jobs mount images.
ON_NODES = "/user-environment"


def crowd(count, command):
    """The command that starts some processes at once, and fails if one of them does."""
    loop = (
        'n=$1; shift; i=0; all=; while [ $i -lt "$n" ]; do "$@" & all="$all $!"; i=$((i+1)); done; '
        "for one in $all; do wait $one || exit 1; done"
    )
    return ["sh", "-c", loop, "sh", str(count), *command]


def rounds(name, count):
    if count <= 16 or name == "true":
        return ROUNDS
    return FEW if name == "numpy" else min(ROUNDS, 5)


def too_many(most):
    return f"this form starts at most {most} of these processes at once, so that it ends in time"


class Inside:
    """A shell in an environment that is held: it runs a command again and again, and says how long that took."""

    LOOP = 'while read -r line; do eval "$line" >/dev/null; echo $?; done'

    def __init__(self, command, line):
        self.line = line
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def measure(self):
        begun = time.perf_counter()
        self.process.stdin.write(self.line + "\n")
        self.process.stdin.flush()
        code = self.process.stdout.readline().strip()
        if code != "0":
            raise NotHere(f"the command ended with {code or 'its shell'}")
        return time.perf_counter() - begun

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Libraries:
    """A program with many shared libraries, in a directory and in an image that is mounted there."""

    is_root = False

    def __init__(self, work):
        self.work = work
        # The mount point must be there for those who mount the directory without Cabane.
        self.mount_point = work.place("many")
        self.directory = work.place("many-files")
        self.path = work.place("many.squashfs")
        for place in (self.mount_point, self.directory + "/lib", self.directory + "/bin"):
            os.makedirs(place)
        self.compile()
        self.repository = work.place("repository")
        text_of([PROGRAM, "repo", "create", self.repository])
        self.pack(self.mount_point, self.path)

    def compile(self):
        compiler = program("cc")
        source = self.work.place("source")
        os.makedirs(source)

        def library(number):
            file = f"{source}/{number}.c"
            with open(file, "w") as text:
                text.write(f"int table_{number}[64] = {{{number}}};\n")
                text.write(f"int *pointer_{number} = table_{number};\n")
                text.write(f"int value_{number}(int n) {{ return n + *pointer_{number}; }}\n")
            name = f"libmany{number}.so"
            text_of([compiler, "-O1", "-fPIC", "-shared", f"-Wl,-soname,{name}", "-o", f"{self.directory}/lib/{name}", file])

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(library, range(LIBRARIES)))
        declared = "\n".join(f"int value_{number}(int);" for number in range(LIBRARIES))
        called = "\n".join(f"    n = value_{number}(n);" for number in range(LIBRARIES))
        expected = LIBRARIES * (LIBRARIES - 1) // 2
        main = self.work.write(
            "source/main.c", f"{declared}\nint main(void) {{\n    int n = 0;\n{called}\n    return n != {expected};\n}}\n"
        )
        libraries = [f"-lmany{number}" for number in range(LIBRARIES)]
        target = f"{self.directory}/bin/many"
        text_of([compiler, "-O1", main, "-o", target, f"-L{self.directory}/lib", "-Wl,-rpath,$ORIGIN/../lib", *libraries])

    def pack(self, mount_point, file):
        """Makes an image for a mount point. The program finds its libraries beside itself, wherever it is."""
        recipe = f"name: many\nengine: tree\nstore: {mount_point}\ntree: {{source: {self.directory}}}\n"
        recipe = os.path.dirname(self.work.write("recipe/config.yaml", recipe))
        cabane = [PROGRAM, f"--repo={self.repository}"]
        text_of([*cabane, "build", recipe, "many/1:v1", "--replace"])
        found = text_of([*cabane, "image", "inspect", "many/1:v1", "--format", "{sqfs}"]).strip()
        shutil.copyfile(found, file)

    @property
    def command(self):
        return [f"{self.mount_point}/bin/many"]

    def run(self, *command, path=None):
        return [PROGRAM, "run", path or self.path, "--", *command]

    variables = {}
    in_directory = Image.in_directory


def in_memory(name, subject, command, directory):
    """The image beside the same files in memory: started anew, and held from an earlier start."""
    text_of(subject.run(*command))
    text_of(subject.in_directory(directory, *command))
    for count in COUNTS:
        row = f"start_{name}_{count}"
        if count > MOST[name]:
            for end in ("", "_held"):
                left_out(row + end, too_many(MOST[name]))
            continue
        start = crowd(count, command)
        ours, other = subject.run(*start), subject.in_directory(directory, *start)
        compare(row, timed(*ours), timed(*other), rounds(name, count))
        shell = ["sh", "-c", Inside.LOOP]
        line = shlex.join(start)
        with Inside(subject.run(*shell), line) as ours, Inside(subject.in_directory(directory, *shell), line) as other:
            compare(f"{row}_held", ours.measure, other.measure, rounds(name, count))


def on_server(name, subject, command, directory, work):
    """The image on a file server beside the directory on it: time, and requests."""
    holder, file = os.path.split(os.path.realpath(subject.path))
    # The first start shows whether it is possible at all.
    with Client(directory, work.place("server")) as client:
        if name == "true":
            figure("start_server_round_trip", client.round_trip(), "ms")
        text_of(subject.in_directory(client.path, *command))
    for count in COUNTS:
        row = f"start_{name}_{count}"
        if count > MOST_ON_SERVER[name]:
            for what in ("server", "requests"):
                left_out(f"{row}_{what}", too_many(MOST_ON_SERVER[name]))
            continue
        start = crowd(count, command)
        asked = {"ours": [], "other": []}

        def ours():
            with Client(holder, work.place("server")) as client:
                took = seconds(subject.run(*start, path=os.path.join(client.path, file)))
                asked["ours"].append(sum(client.requests().values()))
            return took

        def other():
            with Client(directory, work.place("server")) as client:
                took = seconds(subject.in_directory(client.path, *start))
                asked["other"].append(sum(client.requests().values()))
            return took

        times = rounds(name, count)
        compare(f"{row}_server", ours, other, times)
        # What was counted beside the times, in turns.
        counts = {what: itertools.cycle(values) for what, values in asked.items()}
        compare(f"{row}_requests", lambda: next(counts["ours"]), lambda: next(counts["other"]), times, "requests")


def peers(image, directory):
    """How other tools start a command with the same files: those that are here."""
    if not image.is_root:
        reason = "the image is not a root file system, and the tool starts containers"
        return {name: reason for name in ("apptainer", "charliecloud", "podman")}
    found = {}
    # Charliecloud wants to know it.
    os.environ.setdefault("USER", getpass.getuser())
    for name, tool, words in (
        ("apptainer", "apptainer", ["exec", image.path]),
        ("charliecloud", "ch-run", [image.path, "--"]),
        ("podman", "podman", ["run", "--rm", "--network=host", "--rootfs", f"{directory}:O"]),
    ):
        try:
            found[name] = [program(tool), *words]
            text_of(found[name] + TRUE)
        except NotHere as reason:
            found[name] = str(reason)
    return found


def beside_peers(image, directory):
    """A start beside those of other tools, and many starts at once, each with its own mounts."""
    for name, start in peers(image, directory).items():
        rows = {
            f"start_true_1_{name}": (1, TRUE),
            f"start_numpy_1_{name}": (1, NUMPY),
            f"start_each_{name}": (EACH, TRUE),
        }
        for row, (count, command) in rows.items():
            if isinstance(start, str):
                left_out(row, start)
            else:
                attempt(row, beside_peer, row, count, image.run(*command), start + command)


def beside_peer(row, count, ours, other):
    text_of(ours)
    text_of(other)
    compare(row, timed(*crowd(count, ours)), timed(*crowd(count, other)), ROUNDS)


def each(image, directory):
    """Many starts at once, each with mounts of its own, beside the same with the directory."""
    ours, other = crowd(EACH, image.run(*TRUE)), crowd(EACH, image.in_directory(directory, *TRUE))
    compare("start_each", timed(*ours), timed(*other), ROUNDS)


def nodes_of_job():
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "0"))
    if not nodes:
        raise NotHere("this is not a job of Slurm: `cabane check --on slurm --reframe=-Snodes=8` makes one")
    if not SHARED:
        raise NotHere("no directory that all nodes see is named: --reframe=-Sshared=DIRECTORY")
    return nodes


def steps(name, available, image, ours, other):
    """Steps on 1 to 8 nodes: with an image, and with a directory that all nodes see."""
    # A first step of each shows whether it is possible at all.
    text_of(["srun", "--nodes=1", "--ntasks=1", f"--uenv={image}", *ours])
    text_of(["srun", "--nodes=1", "--ntasks=1", *other])
    for nodes in NODES:
        row = f"start_{name}_nodes_{nodes}"
        if nodes > available:
            left_out(row, f"the job has {available} nodes")
            continue
        step = ["srun", f"--nodes={nodes}", f"--ntasks={nodes * RANKS}", f"--ntasks-per-node={RANKS}", "--overcommit"]
        compare(row, timed(*step, f"--uenv={image}", *ours), timed(*step, *other), FEW)


def numpy_on_nodes(image):
    available = nodes_of_job()
    with Work(SHARED) as shared:
        directory = image.unpack(shared.place("directory"))
        other = [os.path.join(directory, "bin/python3"), *NUMPY[1:]]
        if image.is_root:
            # A user can make a directory the root of a rank only in namespaces of its own.
            other = image.in_directory(directory, *NUMPY)
        steps("numpy", available, image.path, NUMPY, other)


def libraries_on_nodes(libraries):
    available = nodes_of_job()
    with Work(SHARED) as shared:
        directory, file = shared.place("many"), shared.place("many.squashfs")
        shutil.copytree(libraries.directory, directory)
        libraries.pack(ON_NODES, file)
        os.chmod(shared.path, 0o755)
        steps("libraries", available, file, [f"{ON_NODES}/bin/many"], [f"{directory}/bin/many"])


def rows_on_nodes(name):
    return " ".join(f"start_{name}_nodes_{nodes}" for nodes in NODES)


def rows_of(name):
    return " ".join(f"start_{name}_{count}{end}" for count in COUNTS for end in ("", "_held"))


def rows_on_server(name):
    return " ".join(f"start_{name}_{count}_{what}" for count in COUNTS for what in ("server", "requests"))


def measure_image(image, memory, work):
    groups = [rows_of("true"), rows_of("numpy"), rows_on_server("true"), rows_on_server("numpy"), "start_each", PEERS]
    try:
        directory = image.unpack(memory.place("directory"))
    except NotHere as reason:
        for row in " ".join([*groups, rows_on_nodes("numpy")]).split():
            left_out(row, reason)
        return
    for name, command in (("true", TRUE), ("numpy", NUMPY)):
        attempt(rows_of(name), in_memory, name, image, command, directory)
        attempt(rows_on_server(name), on_server, name, image, command, directory, work)
    attempt("start_each", each, image, directory)
    beside_peers(image, directory)
    attempt(rows_on_nodes("numpy"), numpy_on_nodes, image)


def measure_libraries(work):
    try:
        libraries = Libraries(work)
    except NotHere as reason:
        for row in f"{rows_of('libraries')} {rows_on_server('libraries')} {rows_on_nodes('libraries')}".split():
            left_out(row, reason)
        return
    attempt(rows_of("libraries"), in_memory, "libraries", libraries, libraries.command, libraries.directory)
    attempt(rows_on_server("libraries"), on_server, "libraries", libraries, libraries.command, libraries.directory, work)
    attempt(rows_on_nodes("libraries"), libraries_on_nodes, libraries)


def main():
    image = Image()
    has_room = os.path.isdir(MEMORY) and free(MEMORY) > 8 * os.path.getsize(image.path)
    with Work(MEMORY if has_room else None) as memory, Work() as work:
        measure_libraries(work)
        measure_image(image, memory, work)


if __name__ == "__main__":
    main()
