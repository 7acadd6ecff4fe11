# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The configuration of ReFrame for one image. `suite.json` beside this file has all that differs.
import getpass
import json
import os
import re
import shlex

import yaml
from reframe.core.backends import getlauncher, register_launcher
from reframe.core.launchers import JobLauncher

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "suite.json")) as file:
    suite = json.load(file)
marks = os.path.join(here, "begun")
try:
    getpass.getuser()
except Exception:
    # Without a name, ReFrame 4.10 ends at the first test that measures something.
    os.environ["LOGNAME"] = "user"


@register_launcher("cabane-here")
class Here(JobLauncher):
    """Starts ranks with the launcher in the image."""

    def command(self, job):
        if not job.num_tasks or job.num_tasks == 1:
            return []
        launcher = "$(command -v mpiexec || command -v mpirun || echo mpiexec)"
        return [launcher, "-n", str(job.num_tasks)]


if suite["launcher"] == "cabane-slurm":

    @register_launcher("cabane-slurm")
    class Slurm(getlauncher("srun")):
        """Starts ranks with srun. Each makes a file before it becomes the program."""

        def command(self, job):
            pmi = suite["pmi"]
            return super().command(job) + ([f"--mpi={pmi}"] if pmi else [])

        def run_command(self, job):
            mark = marks + os.path.realpath(job.workdir) + "/rank"
            begin = ': >"$0.$SLURM_PROCID" && exec "$@"'
            words = ["sh", "-c", begin, mark]
            return super().run_command(job) + " " + " ".join(map(shlex.quote, words))


def name(text):
    """What ReFrame accepts as a name."""
    text = re.sub(r"[^A-Za-z0-9_-]", "_", str(text).strip())
    return text if re.match(r"[A-Za-z_]", text) else "_" + text


def listed(value):
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def activation(value):
    """A path is a script to be read; anything else is a command, or a list of them."""
    if isinstance(value, str):
        return [". " + shlex.quote(value)] if value.startswith("/") else [value]
    return [str(line) for line in listed(value)]


def environment(key, value):
    if not isinstance(value, dict):
        raise ValueError(f"the environment {key} in extra/reframe.yaml is not a map")
    views = ",".join(str(view) for view in listed(value.get("views")))
    enter = suite["enter"] + ([f"--view={views}"] if views else []) + ["--"]
    script = [os.path.join(here, "enter.sh"), marks] + enter
    made = {
        "name": name(key),
        "features": [name(one) for one in listed(value.get("features"))] + ["uenv"],
        "extras": {name(one): what for one, what in (value.get("extras") or {}).items()},
        "prepare_cmds": [". " + " ".join(map(shlex.quote, script))]
        + activation(value.get("activation")),
        "target_systems": [suite["system"]],
    }
    for compiler in ("cc", "cxx", "ftn", "nvcc"):
        if value.get(compiler) is not None:
            made[compiler] = str(value[compiler])
    if views and suite["launcher"] == "cabane-slurm":
        made["resources"] = {"cabane_view": {"view": views}}
    return made


def beside():
    """The environment of tests that run beside the image and get its file."""
    script = [os.path.join(here, "beside.sh"), marks]
    return {
        "name": "host",
        "features": ["host"],
        "prepare_cmds": [". " + " ".join(map(shlex.quote, script))],
        "env_vars": [["CABANE_CHECK_PROGRAM", suite["program"]], ["CABANE_CHECK_IMAGE", suite["image"]]],
        "target_systems": [suite["system"]],
    }


if suite["environments"] is None:
    environments = {"default": {"features": suite["features"]}}
else:
    environments = yaml.safe_load(suite["environments"])
    if not isinstance(environments, dict) or not environments:
        raise ValueError("extra/reframe.yaml is not a map of environments")
environments = [environment(key, value) for key, value in environments.items()]
partitions = [
    {
        "name": suite["partition"],
        "scheduler": suite["scheduler"],
        "launcher": suite["launcher"],
        "access": suite["access"],
        "environs": [one["name"] for one in environments],
        "features": ["uenv"] + (["remote"] if suite["access"] else []),
        "time_limit": suite["time_limit"],
        "resources": [{"name": "cabane_view", "options": ["--view={view}"]}],
    }
]
if suite["host"]:
    host = beside()
    if any(one["name"] == host["name"] for one in environments):
        raise ValueError("an environment in extra/reframe.yaml has the name `host`, which tests beside the image use")
    environments.append(host)
    # The jobs of the other partition run in the image. Here a test starts ranks itself, and what measures must
    # be alone.
    partitions.append(
        {
            "name": "host",
            "scheduler": suite["scheduler"],
            "launcher": "local",
            "access": suite["access_beside"],
            "environs": [host["name"]],
            "features": ["host"] + (["remote"] if suite["access"] else []),
            "max_jobs": 1,
            "time_limit": suite["time_limit"],
        }
    )

site_configuration = {
    "systems": [
        {
            "name": suite["system"],
            "hostnames": [".*"],
            "partitions": partitions,
        }
    ],
    "environments": environments,
    "general": [{"topology_prefix": os.path.join(here, "topology")}],
    "logging": [
        {
            "handlers": [
                {"type": "file", "name": os.path.join(here, "reframe.log"), "level": "debug2"}
            ],
            "handlers$": [{"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}],
        }
    ],
}
