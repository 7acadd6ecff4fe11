# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Gets the program uv out of its wheel, from where the packages of the build come.

    fetch_uv.py VERSION PLATFORM SHA256 PROGRAM

The name of the wheel ends in PLATFORM. If variables of uv name indexes, the script asks them (PEP 503,
PEP 691). Otherwise pip fetches the wheel with its own settings."""

import base64
import hashlib
import html.parser
import importlib.util
import io
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import venv
import zipfile

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
# In seconds, for each answer.
PATIENCE = 60


def setting(*names):
    """The words of the first variable that is set."""
    for name in names:
        if os.environ.get(name):
            return os.environ[name].split()
    return []


def indexes():
    typed = setting("UV_INDEX") + setting("UV_DEFAULT_INDEX", "UV_INDEX_URL") + setting("UV_EXTRA_INDEX_URL")
    # One can have a name: `lab=https://…`.
    return [one.split("=", 1)[-1] if "://" not in one.split("=", 1)[0] else one for one in typed]


def get(address):
    """The content of an address, its type, and where it was found."""
    parts = urllib.parse.urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    plain = parts._replace(netloc=host).geturl()
    request = urllib.request.Request(plain, headers={"Accept": ACCEPT})
    if parts.username is not None:
        user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
    context = None
    if {host, parts.hostname} & set(setting("UV_INSECURE_HOST")):
        context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
        return answer.read(), answer.headers.get_content_type(), answer.geturl()


class Links(html.parser.HTMLParser):
    """The addresses of all links of a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def addresses(index):
    """The addresses of the files that an index has of uv."""
    page, kind, place = get(index.rstrip("/") + "/uv/")
    if kind.endswith("json"):
        found = [one["url"] for one in json.loads(page)["files"]]
    else:
        links = Links()
        links.feed(page.decode(errors="replace"))
        found = links.found
    # The user and password of the index are also those of its files on the same host.
    given = urllib.parse.urlsplit(index).netloc
    for one in found:
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(place, one))._replace(fragment="")
        if "@" in given and parts.netloc == given.rpartition("@")[2]:
            parts = parts._replace(netloc=given)
        yield parts.geturl()


def wheels(version, platform):
    """The content of each wheel that may be the right one, and a line for each place without."""
    def is_wanted(name):
        name = urllib.parse.unquote(name.rpartition("/")[2])
        return name.startswith(f"uv-{version}-") and name.endswith(f"{platform}.whl")

    for place in setting("UV_FIND_LINKS"):
        if os.path.isdir(place):
            for name in filter(is_wanted, sorted(os.listdir(place))):
                with open(os.path.join(place, name), "rb") as file:
                    yield file.read(), None
    for index in indexes():
        shown = urllib.parse.urlsplit(index)
        shown = shown._replace(netloc=shown.netloc.rpartition("@")[2]).geturl()
        try:
            found = next(filter(is_wanted, addresses(index)), None)
            if found is None:
                yield None, f"{shown} has no uv {version} for {platform}"
            else:
                yield get(found)[0], None
        except (OSError, ValueError, KeyError) as error:
            reason = getattr(error, "reason", None) or error
            yield None, f"{shown}: {reason}"


def by_pip(version, platform, digest):
    """The content of the wheel as pip fetches it."""
    with tempfile.TemporaryDirectory() as place:
        python = sys.executable
        if importlib.util.find_spec("pip") is None:
            venv.create(f"{place}/venv", with_pip=True)
            python = f"{place}/venv/bin/python"
        with open(f"{place}/requirements.txt", "w", encoding="ascii") as file:
            file.write(f"uv=={version} --hash=sha256:{digest}\n")
        # pip brings its own list of authorities, and many sites have one more.
        authorities = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        if os.path.exists(authorities):
            os.environ.setdefault("PIP_CERT", authorities)
        subprocess.run(
            [python, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
             "--no-deps", "--require-hashes", "--only-binary=:all:", "--platform", platform,
             "--dest", f"{place}/wheels", "--requirement", f"{place}/requirements.txt"], check=True)
        [name] = os.listdir(f"{place}/wheels")
        with open(f"{place}/wheels/{name}", "rb") as file:
            return file.read()


def of_variables(version, platform, digest):
    reasons = []
    for wheel, reason in wheels(version, platform):
        if wheel is not None and hashlib.sha256(wheel).hexdigest() == digest:
            return wheel
        reasons.append(reason or f"a wheel of uv {version} has another sha256 than {digest}")
    sys.exit("\n".join(explained(version, reasons)))


def explained(version, reasons):
    return [*(f"cannot fetch uv {version}: {one}" for one in reasons),
            "name your package index in UV_DEFAULT_INDEX, or another uv in CABANE_UV"]


def main(version, platform, digest, program):
    if indexes() or setting("UV_FIND_LINKS"):
        wheel = of_variables(version, platform, digest)
    else:
        try:
            wheel = by_pip(version, platform, digest)
        except subprocess.CalledProcessError:
            sys.exit("\n".join(explained(version, ["pip failed, or this Python has no pip and no ensurepip"])))
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        content = archive.read(f"uv-{version}.data/scripts/uv")
    directory = os.path.dirname(program)
    os.makedirs(directory, exist_ok=True)
    # Another build may do the same at this moment.
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o755)
    os.rename(file.name, program)


main(*sys.argv[1:])
